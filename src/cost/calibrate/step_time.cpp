#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "cost/calibrate/training_row.h"
#include "cost/collective_cost.h"
#include "cost/layer_cost.h"

namespace tributary::cost {
namespace {

using config::Cluster;
using config::CollectiveOp;
using config::LayerKind;
using config::LayerShape;
using config::RecomputePlan;

LayerShape block_of(const TrainingRow& row) {
  return {.kind = LayerKind::kBlock,
          .width = row.width,
          .heads = row.heads,
          .kv_heads = row.heads,
          .head_width = row.width / row.heads,
          .mlp_width = 4 * row.width,
          .mlp_matrices = 2};
}

/// Forward, backward and recompute of one layer, with its collectives over tp.
double layer_seconds(const Cluster& cluster, const TrainingRow& row, const LayerShape& layer,
                     RecomputePlan recompute) {
  const auto sequence = static_cast<double>(row.sequence);
  const auto samples = static_cast<double>(row.micro_batch);
  const PassShape pass{.tokens = samples * sequence,
                       .squared_tokens = samples * sequence * sequence,
                       .sequences = row.micro_batch};
  const LayerPlacement placement{.tp = row.tp,
                                 .sequence_parallel = row.sequence_parallel,
                                 .attention = AttentionCore::kScores};
  const LayerCost cost = layer_cost(cluster.device, layer, pass, placement);
  double time =
      seconds_of(cost.forward) + seconds_of(cost.input_gradient) + seconds_of(cost.weight_gradient);
  double reductions = 2 * static_cast<double>(cost.tp_all_reduces);
  if (layer.kind == LayerKind::kBlock) {
    if (recompute == RecomputePlan::kFull) {
      time += seconds_of(cost.recompute);
      reductions += static_cast<double>(cost.tp_all_reduces);
    } else if (recompute == RecomputePlan::kSelective) {
      time += seconds_of(cost.recompute_selective);
    }
  }
  if (row.tp == 1 || reductions == 0) return time;
  const CommunicationGroup group = group_of(row.tp, 1, cluster.devices_per_node());
  const CollectiveCost reduction =
      collective_cost(cluster, CollectiveOp::kAllReduce, group, cost.tp_all_reduce);
  return time + reductions * seconds_of(reduction.time);
}

/// A message between neighbouring stages. Across nodes, every rank of a tp group sends its part.
double message_seconds(const Cluster& cluster, const TrainingRow& row) {
  if (row.pp == 1) return 0;
  const std::int64_t bytes = 2 * row.micro_batch * row.sequence * row.width;
  const bool within = row.devices <= cluster.devices_per_node();
  const CommunicationGroup pair{.ranks = 2, .ranks_per_node = within ? 2 : 1};
  return seconds_of(
      collective_cost(cluster, CollectiveOp::kSend, pair, {within ? bytes : bytes / row.tp}).time);
}

/// Parameters of the rank with the most: on the first or the last stage.
double parameters_of_rank(const TrainingRow& row) {
  const double blocks = std::ceil(static_cast<double>(row.layers) / static_cast<double>(row.pp)) *
                        static_cast<double>(count_layer_parameters(block_of(row))) /
                        static_cast<double>(row.tp);
  const auto width = static_cast<double>(row.width);
  return blocks + static_cast<double>(vocab_of_rank(row.vocab, row.tp)) * width +
         static_cast<double>(row.sequence) * width;
}

}  // namespace

RecomputePlan recompute_of(const Cluster& cluster, const TrainingRow& row) {
  if (row.recompute) return *row.recompute;
  const auto sequence = static_cast<double>(row.sequence);
  const LayerShape block = block_of(row);
  const LayerCost cost =
      layer_cost(cluster.device, block, {.tokens = sequence, .squared_tokens = sequence * sequence},
                 {.attention = AttentionCore::kScores});
  const auto layers = static_cast<double>(row.layers);
  const double embedding =
      static_cast<double>(row.vocab + row.sequence) * static_cast<double>(row.width);
  // fp16 weight and gradient, fp32 gradient, weight and two moments: 20 bytes per parameter.
  const double state =
      20 * (layers * static_cast<double>(count_layer_parameters(block)) + embedding);
  const double activations = layers * static_cast<double>(cost.activation.count);
  const double room =
      static_cast<double>(cluster.device.memory.count - cluster.device.reserve.count);
  return state + activations <= room ? RecomputePlan::kNone : RecomputePlan::kFull;
}

StepParts step_parts(const Cluster& cluster, const TrainingRow& row) {
  TRIB_REQUIRE(row.devices <= cluster.devices, .what = "cost: row needs more devices",
               .where = row.place(), .found = str(row.devices, " GPUs"),
               .expected = str("at most the ", cluster.devices, " of the cluster"),
               .fix = "raise `devices` of the cluster file, and `ranks` of its last level");
  const RecomputePlan recompute = recompute_of(cluster, row);
  const double block = layer_seconds(cluster, row, block_of(row), recompute);
  const LayerShape embed{.kind = LayerKind::kEmbedding, .width = row.width, .vocab = row.vocab};
  const LayerShape logits{.kind = LayerKind::kHead, .width = row.width, .vocab = row.vocab};
  const double embedding = layer_seconds(cluster, row, embed, recompute);
  const double head = layer_seconds(cluster, row, logits, recompute) + cluster.device.microbatch_s;

  const auto microbatches = static_cast<double>(row.microbatches());
  const auto pp = static_cast<double>(row.pp);
  // Stages hold whole layers; the slowest one sets the pace.
  const double middle = std::ceil(static_cast<double>(row.layers) / pp) * block;
  const double first = middle + embedding;
  const double last = middle + head;
  StepParts parts;
  if (row.pp == 1) {
    parts.stages = microbatches * (middle + embedding + head);
  } else {
    const double message = message_seconds(cluster, row);
    const auto chunks = static_cast<double>(row.virtual_stages);
    const double slowest = std::max(first, last);
    parts.stages = microbatches * slowest;
    parts.bubble = (first + last + (pp - 2) * middle - slowest) / chunks;
    // Every chunk of a microbatch, and its gradient, is received; the fill waits for all of them.
    parts.messages =
        2 * message * (cluster.exposed_message_share * chunks * (microbatches - 1) + (pp - 1));
  }
  const double parameters = parameters_of_rank(row);
  const CommunicationGroup replicas = group_of(row.dp, row.tp, cluster.devices_per_node());
  parts.gradients = seconds_of(
      collective_cost(cluster, CollectiveOp::kAllReduce, replicas, {std::llround(2 * parameters)})
          .time);
  parts.optimizer = seconds_of(optimizer_time(cluster.device, parameters));
  return parts;
}

double step_seconds(const Cluster& cluster, const TrainingRow& row) {
  return step_parts(cluster, row).total();
}

}  // namespace tributary::cost
