#include "plan/judge/batch_deals.h"

#include <algorithm>

#include "config/family/known_modules.h"
#include "plan/judge/simulate_on.h"
#include "plan/problem/plan_choice.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "simulate/samples/deal_step.h"

namespace tributary::plan {
namespace {

/// Tokens of all samples: a capacity that every microbatch stays below.
Tokens tokens_of(const std::vector<simulate::SampleSize>& samples) {
  Tokens tokens;
  for (const simulate::SampleSize& sample : samples) tokens.count += sample.tokens;
  return tokens;
}

/// The bucket of each sample: replica by replica in each round.
std::vector<std::int32_t> buckets_in(const schedule::StepPlan& step) {
  std::vector<std::int32_t> bucket_of(step.replica_of.size());
  const std::int64_t replicas = std::ssize(step.microbatches);
  for (std::int64_t replica = 0; replica < replicas; ++replica) {
    const schedule::PackedBins& own = step.microbatches[static_cast<std::size_t>(replica)];
    for (std::int64_t round = 0; round < own.bins(); ++round)
      for (const std::int32_t sample : own.bin(round))
        bucket_of[sample] = static_cast<std::int32_t>(round * replicas + replica);
  }
  return bucket_of;
}

/// Tokens of the fullest microbatch.
std::int64_t fullest_of(const std::vector<simulate::SampleSize>& samples,
                        const std::vector<std::int32_t>& bucket_of) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(std::ranges::max(bucket_of)) + 1);
  for (std::size_t i = 0; i < samples.size(); ++i) tokens[bucket_of[i]] += samples[i].tokens;
  return std::ranges::max(tokens);
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

BatchDeals::StepKey BatchDeals::key_of(const config::Plan& plan, std::size_t batch) const {
  const schedule::StepProblem problem = simulate::step_problem(plan, {});
  return {problem.replicas, problem.meeting, problem.microbatches, equal_samples_ ? 0 : batch};
}

schedule::StepPlan BatchDeals::deal(const config::Plan& plan, std::size_t batch,
                                    std::int64_t evaluations) {
  schedule::StepProblem problem = simulate::step_problem(plan, loads(batch));
  problem.capacity = tokens_of(problem_.batches[batch]);
  problem.evaluations = evaluations;
  return schedule::plan_step(problem);
}

const std::vector<std::int32_t>& BatchDeals::buckets(const config::Plan& plan, std::size_t batch) {
  auto& [is_found, found] = place_of(buckets_, key_of(plan, batch));
  std::call_once(is_found, [&] { found = buckets_in(deal(plan, batch, evaluations_)); });
  return found;
}

const schedule::StepPlan& BatchDeals::step(const config::Plan& plan, std::size_t batch) {
  auto& [is_found, found] = place_of(steps_, key_of(plan, batch));
  std::call_once(is_found, [&] { found = deal(plan, batch, 0); });
  return found;
}

Tokens BatchDeals::capacity(const config::Plan& plan, std::size_t batches, double spare) {
  std::int64_t longest = problem_.longest_sample.count;
  std::int64_t fullest = 0;
  for (std::size_t batch = 0; batch < problem_.batches.size(); ++batch) {
    const std::vector<simulate::SampleSize>& samples = problem_.batches[batch];
    for (const simulate::SampleSize& sample : samples) longest = std::max(longest, sample.tokens);
    if (batch < batches || batches == 0)
      fullest = std::max(
          fullest,
          fullest_of(samples, batches == 0 ? buckets(plan, batch) : buckets_in(step(plan, batch))));
  }
  if (!equal_samples_) fullest += static_cast<std::int64_t>(spare * static_cast<double>(fullest));
  return {std::max(longest, fullest)};
}

}  // namespace tributary::plan
