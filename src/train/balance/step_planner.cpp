#include "train/balance/step_planner.h"

#include <algorithm>
#include <string>

#include "config/family/known_modules.h"
#include "core/error.h"
#include "schedule/pack.h"
#include "train/balance/predict_load.h"

namespace tributary::train {
namespace {

/// The part of the plan for one replica; its bins hold places in the replica's own samples.
PlannedStep part_of(const schedule::StepPlan& plan, std::int64_t replica,
                    std::span<const SampleShape> shapes) {
  PlannedStep own{
      .fingerprint = fingerprint(plan), .gap = plan.gap, .shapes = {}, .microbatches = {{0}, {}}};
  if (replica < 0) return own;  // a rank of an encoder
  own.microbatches = plan.microbatches[static_cast<std::size_t>(replica)];
  std::vector<std::int32_t> place(shapes.size());  // in the batch -> among the replica's own
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (plan.replica_of[i] != replica) continue;
    place[i] = static_cast<std::int32_t>(own.shapes.size());
    own.shapes.push_back(shapes[i]);
  }
  for (std::int32_t& item : own.microbatches.items) item = place[static_cast<std::size_t>(item)];
  return own;
}

/// Packs the samples of a replica anew; the bins hold samples of the batch.
schedule::PackedBins pack_replica(const config::BatchSection& batch, const DealtMedia& media,
                                  std::int32_t replica) {
  std::vector<std::int32_t> own;
  std::vector<Tokens> lengths;
  for (std::size_t i = 0; i < media.replica_of.size(); ++i) {
    if (media.replica_of[i] != replica) continue;
    own.push_back(static_cast<std::int32_t>(i));
    lengths.push_back(media.shapes[i].tokens);
  }
  schedule::PackedBins packed = schedule::pack(batch.packing, lengths, batch.capacity_tokens);
  for (std::int32_t& item : packed.items) item = own[static_cast<std::size_t>(item)];
  return packed;
}

}  // namespace

schedule::Meeting meeting_of(const mesh::Mesh& mesh, const config::ParallelSection& parallel) {
  return schedule::meeting_of(mesh.shape().dp_shard, parallel.shard);
}

StepPlanner::StepPlanner(const config::RunConfig& config, const config::ModelConfig& model,
                         const mesh::Mesh& mesh, std::span<const FeatureEdge> edges,
                         std::shared_ptr<const MeasuredTimes> times, ModalitySet beside)
    : batch_(config.batch),
      section_(config.model),
      model_(model),
      meeting_(meeting_of(mesh, config.parallel)),
      replicas_(mesh.data_ranks()),
      own_(mesh.data_index()),
      times_(std::move(times)),
      beside_(beside) {
  const std::vector<config::ModuleChain> chains = config::chains_of(model);
  std::vector<std::int32_t> apart;
  for (const FeatureEdge& edge : edges) {
    const auto chain = std::ranges::find(chains, edge.encoder, &config::ModuleChain::name);
    encoders_.push_back({.encoder = edge.encoder,
                         .takes = edge.takes,
                         .seats = edge.seats,
                         .chain = static_cast<std::int32_t>(chain - chains.begin())});
    encoders_.back().seats.capacity = batch_.capacity_patches;
    apart.push_back(encoders_.back().chain);
  }
  const std::int64_t batches = std::max(1, config.data.prefetch_batches) + 1;
  if (batch_.correct_costs)
    correction_ = std::make_unique<schedule::BatchCorrection>(batches * batch_.global_samples,
                                                              schedule::CorrectionOptions{}, apart);
}

schedule::StepPlan StepPlanner::plan_by(std::span<const schedule::SampleLoad> loads) const {
  return schedule::plan_step({.samples = loads,
                              .replicas = replicas_,
                              .meeting = meeting_,
                              .balance = batch_.balance,
                              .packing = batch_.packing,
                              .microbatches = batch_.microbatches,
                              .capacity = batch_.capacity_tokens});
}

void StepPlanner::deal(DealtMedia& media) const {
  media.items.clear();
  for (const EncoderSeats& encoder : encoders_) {
    media.items.push_back(schedule::list_media(media.shapes, media.microbatches, encoder.takes));
    schedule::deal_media(encoder.seats, cost_of(encoder, media.known.get()), media.items.back());
  }
}

schedule::MediaCost StepPlanner::cost_of(const EncoderSeats& encoder,
                                         const schedule::KnownCosts* known) const {
  schedule::MediaCost predicted = media_cost(model_, section_, encoder.encoder, times_.get());
  if (known == nullptr) return predicted;
  return [known, chain = encoder.chain, predicted = std::move(predicted)](const Grid& item) {
    return known->correct(schedule::share_of(chain, item.patches(), {predicted(item)})).count;
  };
}

std::vector<schedule::SampleLoad> StepPlanner::correct(std::span<const schedule::SampleLoad> loads,
                                                       std::span<const SampleShape> shapes,
                                                       const schedule::KnownCosts& known) const {
  std::vector<schedule::SampleLoad> corrected(loads.begin(), loads.end());
  for (schedule::SampleLoad& load : corrected)
    for (std::size_t i = 0; i < load.chains.size(); ++i) {
      schedule::ChainLoad& chain = load.chains[i];
      chain.time =
          known.correct(schedule::share_of(static_cast<std::int32_t>(i), chain.rows, chain.time));
    }
  for (const EncoderSeats& encoder : encoders_) {
    const schedule::MediaCost cost = cost_of(encoder, &known);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      Nanoseconds& time = corrected[i].chains[static_cast<std::size_t>(encoder.chain)].time;
      time = {};
      for (const Modality modality : kMediaModalities)
        if (encoder.takes.has(modality))
          for (const Grid& item : shapes[i].grids(modality)) time.count += cost(item);
    }
  }
  return corrected;
}

std::vector<schedule::EncoderBatch> StepPlanner::list_encoded(
    const DealtMedia& used, const schedule::StepPlan& without) const {
  DealtMedia otherwise = used;
  if (used.known) {
    otherwise.known = nullptr;
    otherwise.replica_of = without.replica_of;
    otherwise.microbatches = without.microbatches;
    deal(otherwise);
  }
  std::vector<schedule::EncoderBatch> batches;
  for (std::size_t i = 0; i < encoders_.size(); ++i) {
    const EncoderSeats& encoder = encoders_[i];
    const schedule::MediaCost cost = cost_of(encoder, nullptr);
    const auto list = [&](const DealtItems& items) {
      std::vector<schedule::EncodedShare> shares;
      for (const schedule::MediaRound& round : items[i])
        for (const schedule::MediaItem& item : round)
          shares.push_back(
              {.share = schedule::share_of(encoder.chain, item.grid.patches(), {cost(item.grid)}),
               .seat = item.seat,
               .pass = item.pass});
      return shares;
    };
    batches.push_back({.chain = encoder.chain,
                       .seats = encoder.seats.replicas * encoder.seats.seats,
                       .is_colocated = encoder.seats.passes > 0,
                       .used = list(used.items),
                       .without = list(otherwise.items)});
  }
  return batches;
}

void StepPlanner::change(const std::map<std::int32_t, SampleShape>& changes,
                         DealtMedia& media) const {
  if (changes.empty()) return;
  const DealtItems planned = media.items;
  for (const auto& [sample, shape] : changes) {
    const std::int32_t replica = media.replica_of[static_cast<std::size_t>(sample)];
    media.shapes[static_cast<std::size_t>(sample)] = shape;
    media.microbatches[static_cast<std::size_t>(replica)] = pack_replica(batch_, media, replica);
  }
  deal(media);
  for (std::size_t edge = 0; edge < planned.size(); ++edge) {
    const std::optional<std::int32_t> lost = schedule::keep_seats(planned[edge], media.items[edge]);
    TRIB_REQUIRE(!lost.has_value(),
                 .what = "train: record without media was replaced by one that has some",
                 .where = str("sample ", lost.value_or(0), " of the batch"),
                 .found = str("no rank that encodes for it in ", encoders_[edge].encoder),
                 .expected = "records that stay as their headers say",
                 .fix = "look at the quarantine files, and take the bad record out");
  }
}

StepPlanner::Dealt StepPlanner::plan(std::int64_t first_index,
                                     std::span<const SampleShape> shapes) {
  std::vector<schedule::SampleLoad> loads;
  for (const SampleShape& shape : shapes)
    loads.push_back(predict_load(model_, section_, shape.without(beside_), times_.get()));
  const auto known = correction_ ? correction_->known_for(first_index) : nullptr;
  const schedule::StepPlan without = plan_by(loads);
  schedule::StepPlan plan = known ? plan_by(correct(loads, shapes, *known)) : without;
  PlannedStep own = part_of(plan, own_, shapes);
  Dealt dealt{.replica_of = plan.replica_of, .microbatches = plan.microbatches, .media = {}};
  if (!encoders_.empty()) {
    own.media = DealtMedia{.shapes = {shapes.begin(), shapes.end()},
                           .replica_of = plan.replica_of,
                           .microbatches = plan.microbatches,
                           .items = {},
                           .known = known};
    deal(*own.media);
    dealt.media = own.media->items;
  }
  if (correction_) {
    own.predicted = schedule::BatchCorrection::predict(loads);
    own.predicted->plan = std::move(plan);
    own.predicted->replica_without = without.replica_of;
    if (own.media) own.predicted->encoders = list_encoded(*own.media, without);
  }
  const std::scoped_lock lock(mutex_);
  planned_.insert_or_assign(first_index, std::move(own));
  return dealt;
}

PlannedStep StepPlanner::take(std::int64_t first_index) {
  const std::scoped_lock lock(mutex_);
  const auto found = planned_.find(first_index);
  TRIB_CHECK(found != planned_.end(), .what = "train: batch was not planned",
             .where = str("sample ", first_index));
  PlannedStep step = std::move(found->second);
  planned_.erase(planned_.begin(), std::next(found));
  return step;
}

}  // namespace tributary::train
