#include "plan/exact/judge/batch_deals.h"

#include <algorithm>

#include "core/error.h"
#include "plan/exact/judge/simulate_on.h"
#include "plan/shapes/deal_step.h"
#include "schedule/pack.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::plan {
namespace {

constexpr std::int64_t kBriefEvaluations = 20'000;
constexpr double kGrowth = 1.02;  // of a capacity that makes too many microbatches

const config::MeshShape& mesh_of(const config::Plan& plan) { return plan.find("backbone")->mesh; }
std::int64_t replicas_of(const config::Plan& plan) {
  return mesh_of(plan).dp_replicate * mesh_of(plan).dp_shard;
}

}  // namespace

/// One capacity for all batches: the trainer packs each of them into what it takes.
Tokens BatchDeals::find_capacity(const config::Plan& plan) const {
  const std::int64_t buckets = replicas_of(plan) * plan.batch.microbatches;
  std::int64_t longest = problem_.longest_sample.count;
  std::int64_t fullest = 0;
  std::vector<std::vector<Tokens>> lengths;
  for (const std::vector<SampleSize>& batch : problem_.batches) {
    std::int64_t tokens = 0;
    std::vector<Tokens>& own = lengths.emplace_back();
    for (const SampleSize& sample : batch) {
      longest = std::max(longest, sample.tokens);
      tokens += sample.tokens;
      own.push_back({sample.tokens});
    }
    fullest = std::max(fullest, tokens);
  }
  Tokens capacity{std::max(longest, (fullest + buckets - 1) / buckets)};
  const auto is_enough = [&] {
    return std::all_of(lengths.begin(), lengths.end(), [&](const std::vector<Tokens>& own) {
      return schedule::pack(plan.batch.packing, own, capacity).bins() <= buckets;
    });
  };
  const auto grow = [&](double by) {
    capacity.count = static_cast<std::int64_t>(by * static_cast<double>(capacity.count)) + 1;
  };
  while (!is_enough()) grow(kGrowth);
  // Replicas that are to be level need more room than bins alone.
  while (replicas_of(plan) > 1 && most_rounds(plan, capacity) > plan.batch.microbatches)
    grow(kGrowth);
  return capacity;
}

schedule::StepPlan BatchDeals::plan_step(const config::Plan& plan, std::size_t batch,
                                         Tokens capacity) const {
  config::Plan packed = plan;
  packed.batch.capacity_tokens = capacity;
  const schedule::Pipeline pipeline = schedule::pipeline_of(packed);
  const LayerStageCosts costs = costs_on(problem_, packed);
  return StepDealer(packed, pipeline, costs).plan(problem_.batches[batch]);
}

std::int64_t BatchDeals::most_rounds(const config::Plan& plan, Tokens capacity) const {
  std::int64_t most = 0;
  // Batches of equal samples are all alike.
  const std::size_t batches = equal_samples_ ? 1 : problem_.batches.size();
  for (std::size_t batch = 0; batch < batches; ++batch)
    for (const schedule::PackedBins& bins : plan_step(plan, batch, capacity).microbatches)
      most = std::max<std::int64_t>(most, bins.bins());
  return most;
}

std::vector<std::int32_t> BatchDeals::deal_as_trained(const config::Plan& plan, std::size_t batch,
                                                      Tokens capacity) const {
  const schedule::StepPlan step = plan_step(plan, batch, capacity);
  const std::int64_t replicas = replicas_of(plan);
  std::vector<std::int32_t> bucket_of(problem_.batches[batch].size());
  for (std::int64_t replica = 0; replica < replicas; ++replica) {
    const schedule::PackedBins& bins = step.microbatches[replica];
    TRIB_CHECK(bins.bins() <= plan.batch.microbatches,
               .what = "plan: batch takes more microbatches than its capacity is for",
               .found = str(bins.bins()), .expected = str(plan.batch.microbatches));
    for (std::int64_t bin = 0; bin < bins.bins(); ++bin)
      for (const std::int32_t sample : bins.bin(bin))
        bucket_of[sample] = static_cast<std::int32_t>(bin * replicas + replica);
  }
  return bucket_of;
}

std::vector<std::int32_t> BatchDeals::deal_level(const config::Plan& plan, std::size_t batch,
                                                 DealEffort effort) const {
  const std::int64_t buckets = replicas_of(plan) * plan.batch.microbatches;
  const std::vector<SampleSize>& samples = problem_.batches[batch];
  if (equal_samples_) {  // in turns: no other way has less in the fullest bucket
    std::vector<std::int32_t> bucket_of(samples.size());
    for (std::size_t i = 0; i < samples.size(); ++i)
      bucket_of[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % buckets);
    return bucket_of;
  }
  schedule::BalanceBudget budget;
  if (effort == DealEffort::kBrief) budget.evaluations = kBriefEvaluations;
  return assign_buckets(plan.batch, buckets, samples, budget);
}

const std::vector<std::int32_t>& BatchDeals::buckets(const config::Plan& plan, std::size_t batch,
                                                     DealEffort effort) {
  Deal* deal = nullptr;
  const bool as_trained = problem_.space.runnable;
  // Level buckets do not know whose they are.
  const Key key = as_trained
                      ? Key{replicas_of(plan), plan.batch.microbatches, mesh_of(plan).dp_shard > 1}
                      : Key{replicas_of(plan) * plan.batch.microbatches, 1, false};
  {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Deal>& found = deals_[{key, batch, as_trained ? DealEffort::kUsual : effort}];
    if (!found) found = std::make_unique<Deal>();
    deal = found.get();
  }
  std::call_once(deal->is_dealt, [&] {
    deal->bucket_of =
        as_trained ? deal_as_trained(plan, batch, capacity(plan)) : deal_level(plan, batch, effort);
  });
  return deal->bucket_of;
}

Tokens BatchDeals::capacity(const config::Plan& plan) {
  Room* room = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Room>& found =
        rooms_[{replicas_of(plan), plan.batch.microbatches, mesh_of(plan).dp_shard > 1}];
    if (!found) found = std::make_unique<Room>();
    room = found.get();
  }
  std::call_once(room->is_known, [&] { room->capacity = find_capacity(plan); });
  return room->capacity;
}

}  // namespace tributary::plan
