#include "plan/judge/batch_deals.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "config/family/known_modules.h"
#include "plan/judge/simulate_on.h"
#include "plan/problem/plan_choice.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "simulate/samples/deal_step.h"

namespace tributary::plan {
namespace {

constexpr std::int64_t kEvaluations = 20'000;

std::int64_t replicas_of(const config::Plan& plan) {
  const config::MeshShape& mesh = plan.find(config::kBackboneModule)->mesh;
  return mesh.dp_replicate * mesh.dp_shard;
}

std::int64_t buckets_of(const config::Plan& plan) {
  return replicas_of(plan) * plan.batch.microbatches;
}

/// Tokens of all samples: a capacity that every microbatch stays below.
Tokens tokens_of(const std::vector<simulate::SampleSize>& samples) {
  Tokens tokens;
  for (const simulate::SampleSize& sample : samples) tokens.count += sample.tokens;
  return tokens;
}

/// Tokens of the fullest microbatch.
std::int64_t fullest_of(const std::vector<simulate::SampleSize>& samples,
                        const std::vector<std::int32_t>& bucket_of, std::int64_t buckets) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(buckets));
  for (std::size_t i = 0; i < samples.size(); ++i) tokens[bucket_of[i]] += samples[i].tokens;
  return std::ranges::max(tokens);
}
std::int64_t fullest_of(const std::vector<simulate::SampleSize>& samples,
                        const schedule::StepPlan& step) {
  std::int64_t fullest = 0;
  for (const schedule::PackedBins& own : step.microbatches)
    for (std::int64_t bin = 0; bin < own.bins(); ++bin) {
      std::int64_t tokens = 0;
      for (const std::int32_t sample : own.bin(bin)) tokens += samples[sample].tokens;
      fullest = std::max(fullest, tokens);
    }
  return fullest;
}

std::vector<std::int32_t> deal_in_turns(std::size_t samples, std::int64_t buckets) {
  std::vector<std::int32_t> bucket_of(samples);
  for (std::size_t i = 0; i < samples; ++i)
    bucket_of[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % buckets);
  return bucket_of;
}

/// The same buckets, numbered from the costliest down, as the step plan numbers its rounds.
std::vector<std::int32_t> sort_by_cost(const std::vector<schedule::SampleLoad>& loads,
                                       std::int64_t buckets, std::vector<std::int32_t> bucket_of) {
  std::vector<Nanoseconds> costs(static_cast<std::size_t>(buckets));
  for (std::size_t i = 0; i < loads.size(); ++i) costs[bucket_of[i]] += loads[i].sum();
  std::vector<std::int32_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::int32_t bucket) { return costs[bucket]; });
  std::vector<std::int32_t> place(costs.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<std::int32_t>(i);
  for (std::int32_t& bucket : bucket_of) bucket = place[bucket];
  return bucket_of;
}

/// Everything on one stage: the FLOPs of a sample do not depend on where layers are.
config::Plan plan_of_one_device(const PlanningProblem& problem) {
  const std::int64_t units = units_of(*problem.model.find(config::kBackboneModule));
  return to_plan(problem, {.encoders = {encoders_of(problem).size(), std::nullopt}}, {{0, units}});
}

}  // namespace

template <class Key, class Found>
BatchDeals::Once<Found>& BatchDeals::place_of(std::map<Key, std::unique_ptr<Once<Found>>>& places,
                                              const Key& key) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Once<Found>>& place = places[key];
  if (!place) place = std::make_unique<Once<Found>>();
  return *place;
}

const std::vector<schedule::SampleLoad>& BatchDeals::loads(std::size_t batch) {
  auto& [is_found, found] = place_of(loads_, batch);
  std::call_once(is_found, [&] {
    const config::Plan plan = plan_of_one_device(problem_);
    const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
    const cost::LayerStageCosts costs = costs_on(problem_, plan);
    simulate::StepDealer dealer(plan, pipeline, costs);
    for (const simulate::SampleSize& size : problem_.batches[batch])
      found.push_back(dealer.load_of(size));
  });
  return found;
}

std::vector<std::int32_t> BatchDeals::deal_level(const config::Plan& plan, std::size_t batch,
                                                 std::int64_t buckets) {
  // Equal samples go round-robin: no other dispatch has a smaller fullest bucket.
  if (equal_samples_) return deal_in_turns(problem_.batches[batch].size(), buckets);
  const std::vector<schedule::SampleLoad>& loads = this->loads(batch);
  return sort_by_cost(
      loads, buckets,
      share_level(loads, plan.batch.balance, buckets, {.evaluations = kEvaluations}).bucket_of);
}

const std::vector<std::int32_t>& BatchDeals::costliest_first(const config::Plan& plan,
                                                             std::size_t batch) {
  const std::int64_t buckets = buckets_of(plan);
  auto& [is_found, found] = place_of(costliest_first_, BucketKey{buckets, batch});
  std::call_once(is_found, [&] { found = deal_level(plan, batch, buckets); });
  return found;
}

const std::vector<std::int32_t>& BatchDeals::buckets(const config::Plan& plan, std::size_t batch) {
  const std::int64_t replicas = replicas_of(plan);
  const std::int64_t rounds = plan.batch.microbatches;
  auto& [is_found, found] = place_of(buckets_, StepKey{replicas, rounds, batch});
  std::call_once(is_found, [&] {
    found = costliest_first(plan, batch);
    for (std::int32_t& bucket : found)
      bucket = static_cast<std::int32_t>(
          schedule::place_of_round(bucket / replicas, rounds) * replicas + bucket % replicas);
  });
  return found;
}

schedule::StepPlan BatchDeals::plan_step(const config::Plan& plan, std::size_t batch) const {
  const cost::LayerStageCosts costs = costs_on(problem_, plan);
  return simulate::StepDealer(plan, schedule::pipeline_of(plan), costs)
      .plan(problem_.batches[batch]);
}

const schedule::StepPlan& BatchDeals::step(const config::Plan& plan, std::size_t batch) {
  auto& [is_found, found] =
      place_of(steps_, StepKey{replicas_of(plan), plan.batch.microbatches, batch});
  std::call_once(is_found, [&] {
    config::Plan roomy = plan;
    roomy.batch.capacity_tokens = tokens_of(problem_.batches[batch]);
    found = plan_step(roomy, batch);
  });
  return found;
}

Tokens BatchDeals::capacity(const config::Plan& plan, std::size_t batches, double spare) {
  std::int64_t longest = problem_.longest_sample.count;
  std::int64_t fullest = 0;
  for (std::size_t batch = 0; batch < problem_.batches.size(); ++batch) {
    const std::vector<simulate::SampleSize>& samples = problem_.batches[batch];
    for (const simulate::SampleSize& sample : samples) longest = std::max(longest, sample.tokens);
    if (batch < batches) fullest = std::max(fullest, fullest_of(samples, step(plan, batch)));
    if (batches == 0)
      fullest = std::max(fullest, fullest_of(samples, buckets(plan, batch), buckets_of(plan)));
  }
  if (!equal_samples_) fullest += static_cast<std::int64_t>(spare * static_cast<double>(fullest));
  return {std::max(longest, fullest)};
}

}  // namespace tributary::plan
