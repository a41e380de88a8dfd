#include "train/executor/gradients.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>

#include <ATen/ATen.h>

#include "core/error.h"
#include "core/stopwatch.h"
#include "ops/attend_packed.h"
#include "parallel/complete_gradients.h"
#include "train/executor/executor.h"
#include "train/executor/pair_loss.h"
#include "train/executor/step_schedule.h"
#include "train/executor/token_loss.h"

namespace tributary::train {
namespace {

/// What the loss is the mean over: target tokens, or pairs.
std::int64_t count_targets(std::span<const data::EncodedSample> samples, bool are_pairs) {
  if (are_pairs) return std::ssize(samples);
  std::int64_t targets = 0;
  for (const data::EncodedSample& sample : samples) targets += sample.shape().target_tokens.count;
  return targets;
}

void name_losses(std::vector<SourceLoss>& by_source, bool counts, StepSums& sums) {
  for (SourceLoss& source : by_source) {
    sums.sum(source.sum, counts);
    sums.sum(source.targets, counts);
  }
}

void name_pairs(PairSums& pairs, bool counts, StepSums& sums) {
  sums.sum(pairs.pairs, counts);
  for (double* number : pairs.numbers()) sums.sum(*number, counts);
}

double mean_of(const std::vector<SourceLoss>& by_source) {
  SourceLoss all;
  for (const SourceLoss& source : by_source) all += source;
  return all.mean();
}

/// What all ranks know of a step before it begins.
struct Agreement {
  std::int64_t targets = 0;       // or pairs, of the global batch
  std::int64_t microbatches = 0;  // that every rank runs
  std::int64_t refused = 0;       // 1: the data of some rank are beyond a limit
  std::int64_t next = 0;          // microbatches of the step after; 0: nothing is encoded for it
};

/// A 62-bit hash of the samples.
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

/// Agrees on the step. The ranks of a replica read their samples apart, and must have the same.
Agreement agree(const mesh::Mesh& mesh, std::span<const data::EncodedSample> samples,
                std::int64_t microbatches, const GradientOptions& options) {
  Agreement agreed{.targets = count_targets(samples, options.pairs != nullptr),
                   .microbatches = microbatches,
                   .refused = options.refused ? 1 : 0,
                   .next = options.next != nullptr ? options.next->microbatches : 0};
  std::int64_t next_refused = options.next != nullptr && options.next->refused ? 1 : 0;
  std::vector<std::int64_t> samples_of, plan_of;  // [ranks]
  StepSums sums;
  sums.each(fingerprint(samples), samples_of);
  sums.each(options.plan, plan_of);
  sums.sum(agreed.targets, /*counts=*/mesh.leads_replica());
  sums.largest(agreed.microbatches);
  sums.largest(agreed.refused);
  sums.largest(agreed.next);
  sums.largest(next_refused);
  sums.share(mesh.world());
  if (next_refused != 0) agreed.next = 0;
  if (agreed.refused != 0) return agreed;
  std::map<std::int64_t, std::int64_t> samples_of_replica;
  for (std::size_t rank = 0; rank < samples_of.size(); ++rank) {
    const std::int64_t replica = mesh.data_index_of(static_cast<int>(rank));
    if (replica < 0) continue;  // it encodes samples of several replicas
    const auto first = samples_of_replica.try_emplace(replica, samples_of[rank]).first;
    TRIB_REQUIRE(samples_of[rank] == first->second,
                 .what = "train: ranks of one replica have read different samples",
                 .where = str("replica ", replica, ", rank ", rank),
                 .found = "other keys or lengths",
                 .expected = "the same samples on all its pp, cp, ulysses and tp ranks",
                 .fix = "see the quarantine files for records that one machine cannot read");
  }
  TRIB_REQUIRE(std::ranges::adjacent_find(plan_of, std::not_equal_to()) == plan_of.end(),
               .what = "train: ranks have planned the step differently",
               .found = "other shapes of the samples, or another program",
               .expected = "one plan on all ranks",
               .fix = "see whether all machines can read the headers of all images");
  return agreed;
}

/// Of a rank's list the part that a step without backward does.
std::vector<LaneAction> forwards_of(std::span<const LaneAction> actions) {
  using schedule::Op;
  std::vector<LaneAction> forwards;
  std::ranges::copy_if(actions, std::back_inserter(forwards), [](const LaneAction& each) {
    const Op op = each.action.op;
    return op == Op::kForward || op == Op::kSendActivation || op == Op::kReceiveActivation ||
           op == Op::kSendFeatures || op == Op::kReceiveFeatures || op == Op::kHandActivation;
  });
  return forwards;
}

/// What a step minimises: the loss of target tokens, or that of pairs beside a reference.
class StepLoss {
 public:
  StepLoss(model::Model& model, const GradientOptions& options, std::int64_t targets)
      : model_(model), of_tokens_(model, targets, options.max_logits) {
    if (options.pairs == nullptr) return;
    reference_ = options.pairs->reference;
    of_pairs_.emplace(model, options.pairs->section, targets, options.max_logits);
  }

  /// Runs all forwards with the weights of the reference, if there is one.
  void run_reference(const RunLanes& run, std::span<const LaneAction> actions,
                     ExecutorOptions options) {
    if (!of_pairs_) return;
    const Stopwatch watch;
    const at::NoGradGuard no_grad;
    const InPlace in_place(reference_);
    options.forward_only = true;
    options.loss = [&](int index, const Microbatch& microbatch, const at::Tensor& hidden) {
      of_pairs_->take_reference(index, microbatch, hidden);
      return at::Tensor();
    };
    Executor(model_, run, options).run(forwards_of(actions));
    reference_seconds_ = watch.seconds();
  }
  at::Tensor operator()(int index, const Microbatch& microbatch, const at::Tensor& hidden) {
    return of_pairs_ ? (*of_pairs_)(index, microbatch, hidden) : of_tokens_(microbatch, hidden);
  }
  /// Sets the losses and figures, and adds the time of the reference to the forwards.
  void put_into(BatchResult& result) const {
    result.seconds.forward += reference_seconds_;
    if (of_pairs_) {
      std::vector<PairSums> pairs(result.by_source.size());
      of_pairs_->add_to(result.by_source, pairs);
      for (const PairSums& source : pairs) result.pairs += source;
    } else {
      of_tokens_.add_to(result.by_source);
    }
    result.loss = mean_of(result.by_source);
  }

 private:
  model::Model& model_;
  TokenLoss of_tokens_;
  std::optional<PairLoss> of_pairs_;
  WeightCopy* reference_ = nullptr;
  double reference_seconds_ = 0;
};

/// Encodes the media of a step before its first pass, where the step before has not.
std::unique_ptr<FeatureExchange> encode_first(model::Model& model, const RunLanes& run,
                                              std::int64_t microbatches, ExecutorOptions options) {
  const StepSchedule schedule = schedule_step(run, microbatches, microbatches);
  auto features =
      std::make_unique<FeatureExchange>(model, run, options.items, schedule.next_microbatches);
  options.features = options.ahead = features.get();
  Executor(model, run, options).run(actions_ahead(run, schedule.actions));
  return features;
}

std::vector<const data::EncodedSample*> select(std::span<const data::EncodedSample> samples,
                                               std::span<const std::int32_t> members) {
  std::vector<const data::EncodedSample*> selected;
  for (const std::int32_t member : members)
    selected.push_back(&samples[static_cast<std::size_t>(member)]);
  return selected;
}

}  // namespace

void add_over_ranks(const mesh::Group& world, bool counts, std::vector<SourceLoss>& by_source,
                    std::vector<PairSums>& pairs) {
  StepSums sums;
  name_losses(by_source, counts, sums);
  for (PairSums& source : pairs) name_pairs(source, counts, sums);
  sums.share(world);
}

void name_slots(BatchResult& result, const model::Model& model, const RunLanes& run,
                StepSums& sums) {
  const mesh::Mesh& mesh = *model.layout().mesh;
  const bool counts = mesh.leads_stage() && model.layout().holds_head();
  name_losses(result.by_source, counts, sums);
  name_pairs(result.pairs, counts, sums);
  sums.then([&result] { result.loss = mean_of(result.by_source); });
  if (run.stages() == 1 || result.targets == 0) return;
  for (std::int64_t& in_flight : result.pipeline.in_flight) sums.largest(in_flight);
  sums.sum(result.busy);
  sums.largest(result.wall);
  sums.then([&result, ranks = mesh.world().size()] {
    result.pipeline.bubble = 1 - result.busy / (result.wall * ranks);
  });
}

BatchResult accumulate_gradients(model::Model& model, std::span<const data::EncodedSample> samples,
                                 const schedule::PackedBins& microbatches,
                                 const GradientOptions& options) {
  const mesh::Mesh& mesh = *model.layout().mesh;
  const Agreement agreed = agree(mesh, samples, microbatches.bins(), options);
  BatchResult result;
  result.refused = agreed.refused != 0;
  if (result.refused) return result;
  result.targets = agreed.targets;
  result.by_source.resize(static_cast<std::size_t>(options.sources));
  result.loss = std::numeric_limits<double>::quiet_NaN();
  if (agreed.targets == 0) return result;
  for (const auto& unit : model.units()) unit->clear_gradient();
  const RunLanes alone = one_lane();
  const RunLanes& run = options.lanes != nullptr ? *options.lanes : alone;
  const StepSchedule schedule = schedule_step(run, agreed.microbatches, agreed.next);
  const ModalitySet with_rows = rows_taken_inline(model.layout(), run).without(run.beside.takes);
  const auto collate_bin = [&](int bin) {
    if (bin >= microbatches.bins()) return idle_microbatch();
    return collate(select(samples, microbatches.bin(bin)), model.config(), options.mrope,
                   options.device, with_rows);
  };
  const auto collate_counted = [&](int bin) {
    Microbatch microbatch = collate_bin(bin);
    if (bin < microbatches.bins())
      result.attention_rows +=
          ops::SampleGroups(microbatch.batch.cu_seqlens, ops::Mask::kCausal, options.device).rows();
    return microbatch;
  };
  const StepMedia none;
  const StepMedia& media = options.media != nullptr ? *options.media : none;
  const auto collate_from = [&](const StepMedia& of, const EncoderLane& own, int pass) {
    return collate_encoder_input(of.encoded, items_of_pass(own, of.items, pass), of.first_id,
                                 model.encoder_layouts().at(own.encoder), options.device);
  };
  const auto collate_media = [&](const EncoderLane& own, int pass) {
    return collate_from(media, own, pass);
  };
  ExecutorOptions running{.device = options.device,
                          .microbatches = schedule.microbatches,
                          .collate = collate_bin,
                          .collate_media = collate_media,
                          .items = &media.items,
                          .features = options.ready,
                          .on_section = options.on_section,
                          .on_action = options.on_action};
  if (options.flow != nullptr) {
    running.take_features = [&](int bin) {
      return bin < microbatches.bins() ? options.flow->take(select(samples, microbatches.bin(bin)))
                                       : model::Features();
    };
    running.give_gradients = [&](int bin) {
      if (bin < microbatches.bins())
        options.flow->lend_gradients(select(samples, microbatches.bin(bin)));
    };
  }
  const Stopwatch watch;
  std::unique_ptr<FeatureExchange> encoded;
  if (run.encodes_ahead() && options.ready == nullptr) {
    encoded = encode_first(model, run, agreed.microbatches, running);
    running.features = encoded.get();
  }
  const double encoding = encoded ? watch.seconds() : 0;
  const StepMedia& next = agreed.next > 0 ? *options.next->media : none;
  const schedule::PipelineMap map(run.pipeline);
  if (agreed.next > 0) {
    result.ahead =
        std::make_unique<FeatureExchange>(model, run, &next.items, schedule.next_microbatches);
    running.ahead = result.ahead.get();
    running.collate_media = [&](const EncoderLane& own, int pass) {
      return collate_from(map.is_ahead(own.lane) ? next : media, own, pass);
    };
  }
  StepLoss loss(model, options, agreed.targets);
  loss.run_reference(run, schedule.actions, running);
  running.collate = collate_counted;
  running.loss = std::ref(loss);
  Executor executor(model, run, running);
  executor.run(schedule.actions);
  if (options.flow != nullptr) options.flow->finish_gradients();
  parallel::complete_gradients(model.units());
  Execution execution = executor.finish();
  TRIB_CHECK(execution.in_flight <= schedule.in_flight,
             .what = "train: stage kept more activations than its schedule promises",
             .found = str(execution.in_flight), .expected = str("at most ", schedule.in_flight));
  result.reduced = execution.reduced;
  result.seconds = execution.seconds;
  result.seconds.forward += encoding;
  loss.put_into(result);
  result.of_lanes = std::move(execution.of_lanes);
  result.began = execution.began;
  result.busy = execution.busy;
  result.wall = execution.wall;
  if (run.stages() > 1) {
    result.pipeline.in_flight.assign(static_cast<std::size_t>(run.stages()), 0);
    for (const int lane : run.own())
      result.pipeline.in_flight[static_cast<std::size_t>(run.stage_of(lane))] = execution.in_flight;
  }
  result.passes = std::move(execution.passes);
  return result;
}

}  // namespace tributary::train
