#include "plan/exact/judge/batch_deals.h"

#include <algorithm>

#include "plan/exact/judge/simulate_on.h"
#include "plan/shapes/deal_step.h"
#include "schedule/pack.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::plan {
namespace {

constexpr std::int64_t kBriefEvaluations = 20'000;
constexpr double kGrowth = 1.02;         // of a capacity that makes too many microbatches
constexpr double kRoomToBalance = 1.04;  // that replicas need to be level at all

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
  if (replicas_of(plan) > 1) grow(kRoomToBalance);
  return capacity;
}

std::vector<std::int32_t> BatchDeals::deal_as_trained(const config::Plan& plan, std::size_t batch,
                                                      Tokens capacity) const {
  config::Plan packed = plan;
  packed.batch.capacity_tokens = capacity;
  const schedule::Pipeline pipeline = schedule::pipeline_of(packed);
  const LayerStageCosts costs = costs_on(problem_, packed);
  const std::vector<SampleSize>& samples = problem_.batches[batch];
  const schedule::StepPlan step = StepDealer(packed, pipeline, costs).plan(samples);
  const std::int64_t replicas = replicas_of(plan);
  std::vector<std::int32_t> bucket_of(samples.size());
  for (std::int64_t replica = 0; replica < replicas; ++replica) {
    const schedule::PackedBins& bins = step.microbatches[replica];
    for (std::int64_t bin = 0; bin < bins.bins(); ++bin) {
      // A batch that takes one more than the others has it with its last one.
      const std::int64_t round = std::min(bin, plan.batch.microbatches - 1);
      for (const std::int32_t sample : bins.bin(bin))
        bucket_of[sample] = static_cast<std::int32_t>(round * replicas + replica);
    }
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
