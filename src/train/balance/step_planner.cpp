#include "train/balance/step_planner.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "core/json.h"
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
                         std::shared_ptr<const MeasuredTimes> times)
    : batch_(config.batch),
      section_(config.model),
      model_(model),
      meeting_(meeting_of(mesh, config.parallel)),
      replicas_(mesh.data_ranks()),
      own_(mesh.data_index()),
      times_(std::move(times)) {
  for (const FeatureEdge& edge : edges) {
    encoders_.push_back({.encoder = edge.encoder, .takes = edge.takes, .seats = edge.seats});
    encoders_.back().seats.capacity = batch_.capacity_patches;
  }
  const std::int64_t batches = std::max(1, config.data.prefetch_batches) + 1;
  if (batch_.correct_costs)
    correction_ = std::make_unique<schedule::BatchCorrection>(batches * batch_.global_samples);
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
  for (const auto& [encoder, takes, seats] : encoders_) {
    media.items.push_back(schedule::list_media(media.shapes, media.microbatches, takes));
    schedule::deal_media(seats, media_cost(model_, section_, encoder, times_.get()),
                         media.items.back());
  }
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
    loads.push_back(predict_load(model_, section_, shape, times_.get()));
  std::optional<schedule::PredictedBatch> predicted;
  if (correction_) {
    predicted = schedule::BatchCorrection::predict(loads);
    predicted->replica_without = plan_by(loads).replica_of;
    loads = correction_->correct(first_index, loads, *predicted);
  }
  schedule::StepPlan plan = plan_by(loads);
  PlannedStep own = part_of(plan, own_, shapes);
  Dealt dealt{.replica_of = plan.replica_of, .media = {}};
  if (!encoders_.empty()) {
    own.media = DealtMedia{.shapes = {shapes.begin(), shapes.end()},
                           .replica_of = plan.replica_of,
                           .microbatches = plan.microbatches,
                           .items = {}};
    deal(*own.media);
    dealt.media = own.media->items;
  }
  if (predicted) {
    predicted->plan = std::move(plan);
    own.predicted = std::move(predicted);
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

std::vector<schedule::MeasuredPart> gather_parts(const schedule::MeasuredPart& own,
                                                 const mesh::Mesh& mesh) {
  Json part = nullptr;
  if (mesh.leads_stage())
    part = {{"replica", own.replica},
            {"microbatches", own.microbatches},
            {"as_planned", own.as_planned},
            {"step", own.step}};
  std::vector<schedule::MeasuredPart> parts;
  for (const std::string& text : mesh.world().gather_text(part.dump())) {
    const Json gathered = parse_json(text, "times of a rank");
    if (gathered.is_null()) continue;
    parts.push_back({.replica = gathered.at("replica").get<std::int64_t>(),
                     .microbatches = gathered.at("microbatches").get<std::vector<double>>(),
                     .as_planned = gathered.at("as_planned").get<bool>(),
                     .step = gathered.at("step").get<double>()});
  }
  return parts;
}

}  // namespace tributary::train
