#include "train/gradients.h"

#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "core/error.h"
#include "core/stopwatch.h"
#include "ops/attend_packed.h"
#include "parallel/complete_gradients.h"
#include "train/executor/executor.h"
#include "train/executor/step_schedule.h"

namespace tributary::train {
namespace {

std::int64_t count_targets(std::span<const data::EncodedSample> samples) {
  std::int64_t targets = 0;
  for (const data::EncodedSample& sample : samples) targets += sample.shape().target_tokens.count;
  return targets;
}

constexpr double kNanoseconds = 1e9;  // of a second

/// What all ranks know of a step before it begins.
struct Agreement {
  std::int64_t targets = 0;       // of the global batch
  std::int64_t microbatches = 0;  // that every rank runs
};

/// A number of 62 bits that other samples hardly have.
std::int64_t fingerprint(std::span<const data::EncodedSample> samples) {
  std::size_t hash = samples.size();
  const auto mix = [&](std::size_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL + 1; };
  for (const data::EncodedSample& sample : samples) {
    for (const char letter : sample.key) mix(static_cast<unsigned char>(letter));
    mix(sample.tokens.size());
    for (const data::PatchedItem& item : sample.items)
      mix(static_cast<std::size_t>(item.grid.patches()));
  }
  return static_cast<std::int64_t>(hash >> 2);
}

/// Each rank of a replica has read its samples for itself, and all must have the same.
Agreement agree(const mesh::Mesh& mesh, std::span<const data::EncodedSample> samples,
                std::int64_t microbatches, std::int64_t plan) {
  const std::int64_t counted = mesh.leads_replica() ? count_targets(samples) : 0;
  const auto replicas = static_cast<std::size_t>(mesh.data_ranks());
  const auto own = static_cast<std::size_t>(mesh.data_index());
  std::vector<std::int64_t> values(2 * replicas + 3, std::numeric_limits<std::int64_t>::min());
  values[2 * own] = fingerprint(samples);
  values[2 * own + 1] = -values[2 * own];
  values[2 * replicas] = plan;
  values[2 * replicas + 1] = -plan;
  values.back() = microbatches;
  const std::vector<std::int64_t> most = mesh.world().largest(std::move(values));
  for (std::size_t replica = 0; replica < replicas; ++replica)
    TRIB_REQUIRE(most[2 * replica] == -most[2 * replica + 1],
                 .what = "train: ranks of one replica have read different samples",
                 .where = str("replica ", replica), .found = "other keys or lengths",
                 .expected = "the same samples on all its pp, cp, ulysses and tp ranks",
                 .fix = "see the quarantine files for records that one machine cannot read");
  TRIB_REQUIRE(most[2 * replicas] == -most[2 * replicas + 1],
               .what = "train: ranks have planned the step differently",
               .found = "other shapes of the samples, or another program",
               .expected = "one plan on all ranks",
               .fix = "see whether all machines can read the headers of all images");
  return {.targets = mesh.world().sum(std::vector<std::int64_t>{counted}).front(),
          .microbatches = most.back()};
}

std::vector<const data::EncodedSample*> select(std::span<const data::EncodedSample> samples,
                                               std::span<const std::int32_t> members) {
  std::vector<const data::EncodedSample*> selected;
  for (const std::int32_t member : members)
    selected.push_back(&samples[static_cast<std::size_t>(member)]);
  return selected;
}

/// collective: over all ranks, with more than one stage
PipelineUse add_up(const mesh::Mesh& mesh, const Execution& execution) {
  if (mesh.shape().pp == 1) return {};
  PipelineUse use{.bubble = 0, .in_flight = std::vector<std::int64_t>(mesh.shape().pp, 0)};
  use.in_flight[static_cast<std::size_t>(mesh.at().pp)] = execution.in_flight;
  use.in_flight.push_back(std::llround(execution.wall * kNanoseconds));
  use.in_flight = mesh.world().largest(std::move(use.in_flight));
  const double busy = mesh.world().sum(std::vector<double>{execution.busy}).front();
  use.bubble = 1 - busy * kNanoseconds / static_cast<double>(use.in_flight.back() * mesh.size());
  use.in_flight.pop_back();
  return use;
}

}  // namespace

void add_by_source(const at::Tensor& row_losses, std::span<const int> sources,
                   std::vector<SourceLoss>& by_source) {
  const at::Tensor rows = row_losses.to(at::kCPU, at::kFloat).contiguous();
  TRIB_CHECK(rows.numel() == static_cast<std::int64_t>(sources.size()),
             .what = "train: not one loss a target token", .found = str(rows.numel()),
             .expected = str(sources.size()));
  const float* losses = rows.const_data_ptr<float>();
  for (std::size_t i = 0; i < sources.size(); ++i)
    by_source[static_cast<std::size_t>(sources[i])] += {.sum = double{losses[i]}, .targets = 1};
}

void add_over_ranks(const mesh::Group& world, bool counts, std::vector<SourceLoss>& by_source) {
  if (world.is_single()) return;
  std::vector<double> values;
  for (const SourceLoss& source : by_source) {
    values.push_back(counts ? source.sum : 0);
    values.push_back(counts ? static_cast<double>(source.targets) : 0);
  }
  values = world.sum(std::move(values));
  for (std::size_t i = 0; i < by_source.size(); ++i)
    by_source[i] = {.sum = values[2 * i], .targets = static_cast<std::int64_t>(values[2 * i + 1])};
}

BatchResult accumulate_gradients(model::Model& model, std::span<const data::EncodedSample> samples,
                                 const schedule::PackedBins& microbatches,
                                 const GradientOptions& options) {
  const mesh::Mesh& mesh = *model.layout().mesh;
  const Agreement agreed = agree(mesh, samples, microbatches.bins(), options.plan);
  BatchResult result;
  result.targets = agreed.targets;
  result.by_source.resize(static_cast<std::size_t>(options.sources));
  result.loss = std::numeric_limits<double>::quiet_NaN();
  if (agreed.targets == 0) return result;
  for (const auto& unit : model.units()) unit->clear_gradient();
  const StepSchedule schedule = schedule_step(model, agreed.microbatches);
  const auto collate_bin = [&](int bin, Fields fields) {
    if (bin >= microbatches.bins()) return idle_microbatch(options.device);
    Microbatch microbatch = collate(select(samples, microbatches.bin(bin)), model.config(),
                                    options.mrope, options.device, fields);
    result.attention_rows +=
        ops::SampleGroups(microbatch.batch.cu_seqlens, ops::Mask::kCausal, at::kCPU).rows();
    return microbatch;
  };
  Execution execution = Executor(model, {.targets = agreed.targets,
                                         .most_logits = options.most_logits,
                                         .sources = options.sources,
                                         .collate = collate_bin,
                                         .on_section = options.on_section,
                                         .on_action = options.on_action})
                            .run(schedule.actions);
  TRIB_CHECK(execution.in_flight <= schedule.in_flight,
             .what = "train: stage kept more activations than its schedule promises",
             .found = str(execution.in_flight), .expected = str("at most ", schedule.in_flight));
  Stopwatch watch;
  parallel::complete_gradients(model.units());
  result.reduced = mesh::now_seconds();
  result.by_source = execution.by_source;
  add_over_ranks(mesh.world(), mesh.leads_stage() && model.layout().holds_head(), result.by_source);
  SourceLoss all;
  for (const SourceLoss& source : result.by_source) all += source;
  result.loss = all.mean();
  result.seconds = execution.seconds;
  result.microbatches = execution.microbatches;
  result.began = execution.began;
  result.pipeline = add_up(mesh, execution);
  result.passes = std::move(execution.passes);
  result.seconds.backward += watch.lap();
  return result;
}

}  // namespace tributary::train
