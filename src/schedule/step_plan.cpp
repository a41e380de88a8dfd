#include "schedule/step_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "core/error.h"
#include "core/random.h"
#include "schedule/balance/balance_bound.h"
#include "schedule/pack.h"

namespace tributary::schedule {
namespace {

// The search must end long before the step that hides it.
constexpr std::int64_t kEvaluations = 100'000;
constexpr std::int64_t kEvaluationsOfASample = 1000;
constexpr double kEnoughGap = 1e-3;
constexpr double kFillAimedAt = 0.98;  // of a microbatch; above it tokens count as a load
constexpr int kRoundsTried = 2;
constexpr double kLateEnough = 0.01;  // a replica, behind the level of all

using Places = std::vector<std::int32_t>;

std::vector<Tokens> lengths_of(const StepProblem& problem, std::span<const std::int32_t> places) {
  std::vector<Tokens> lengths;
  for (const std::int32_t place : places) lengths.push_back(problem.samples[place].tokens);
  return lengths;
}

/// Packs some of the samples; the bins hold their indices in the global batch.
PackedBins pack_places(const StepProblem& problem, std::span<const std::int32_t> places) {
  PackedBins packed = pack(problem.packing, lengths_of(problem, places), problem.capacity);
  for (std::int32_t& item : packed.items) item = places[item];
  return packed;
}

/// The samples in each of some buckets.
std::vector<Places> members_of(std::span<const std::int32_t> bucket_of, std::int64_t buckets) {
  std::vector<Places> members(static_cast<std::size_t>(buckets));
  for (std::size_t i = 0; i < bucket_of.size(); ++i)
    members[bucket_of[i]].push_back(static_cast<std::int32_t>(i));
  return members;
}

/// Packs the samples of each replica separately.
StepPlan pack_each(const StepProblem& problem, std::vector<std::int32_t> replica_of) {
  StepPlan plan{.replica_of = std::move(replica_of), .microbatches = {}};
  for (const Places& own : members_of(plan.replica_of, problem.replicas))
    plan.microbatches.push_back(pack_places(problem, own));
  return plan;
}

std::vector<std::int32_t> deal_in_turn(const StepProblem& problem) {
  std::vector<std::int32_t> replica_of(problem.samples.size());
  for (std::size_t i = 0; i < replica_of.size(); ++i)
    replica_of[i] = static_cast<std::int32_t>(i % problem.replicas);
  return replica_of;
}

/// The loads of all samples in one dimension.
using Loads = std::vector<std::int64_t>;

/// The times of each chain that some sample has work for, or their sum.
std::vector<Loads> loads_of_chains(std::span<const SampleLoad> samples, config::Balance by) {
  Loads sums;
  for (const SampleLoad& sample : samples) sums.push_back(sample.sum().count);
  if (by != config::Balance::kLpt2d || samples.empty()) return {sums};
  std::vector<Loads> loads;
  for (std::size_t chain = 0; chain < samples.front().chains.size(); ++chain) {
    Loads& times = loads.emplace_back();
    for (const SampleLoad& sample : samples) times.push_back(sample.chains.at(chain).time.count);
    if (std::ranges::max(times) == 0) loads.pop_back();
  }
  if (loads.empty()) loads.push_back(std::move(sums));
  return loads;
}

/// Tokens as a load in ns: a bucket above the fill aimed at is above `level`.
Loads loads_of_tokens(std::span<const SampleLoad> samples, Tokens capacity, std::int64_t level) {
  const double scale =
      static_cast<double>(level) / (kFillAimedAt * static_cast<double>(capacity.count));
  Loads loads;
  for (const SampleLoad& sample : samples)
    loads.push_back(std::llround(static_cast<double>(sample.tokens.count) * scale));
  return loads;
}

std::int64_t evaluations_of(const StepProblem& problem) {
  return problem.evaluations > 0
             ? problem.evaluations
             : kEvaluations + kEvaluationsOfASample * std::ssize(problem.samples);
}

/// Raises each dimension to one level by what every bucket holds beforehand, so that the max load
/// is the max excess of any chain over its own bound. Tokens may be a dimension too.
Balance share_out(const StepProblem& problem, std::int64_t buckets, bool limits_tokens) {
  std::vector<Loads> dimensions = loads_of_chains(problem.samples, problem.balance);
  std::vector<std::int64_t> held;
  for (const Loads& loads : dimensions)
    held.push_back(balance_bound({.buckets = buckets, .dimensions = 1, .loads = loads}));
  const std::int64_t level = std::ranges::max(held);
  for (std::int64_t& bound : held) bound = level - bound;
  if (limits_tokens) {
    dimensions.push_back(loads_of_tokens(problem.samples, problem.capacity, level));
    held.push_back(0);
  }
  Loads rows;
  for (std::size_t i = 0; i < problem.samples.size(); ++i)
    for (const Loads& loads : dimensions) rows.push_back(loads[i]);
  return balance(
      {.buckets = buckets, .dimensions = std::ssize(dimensions), .loads = rows, .held = held},
      {.evaluations = evaluations_of(problem), .enough_gap = kEnoughGap});
}

PackedBins bins_of(std::span<const std::int32_t> bucket_of, std::int64_t buckets) {
  PackedBins bins{.first = {0}, .items = {}};
  for (const Places& own : members_of(bucket_of, buckets)) {
    if (own.empty()) continue;  // fewer samples than buckets
    bins.items.insert(bins.items.end(), own.begin(), own.end());
    bins.first.push_back(static_cast<std::int32_t>(bins.items.size()));
  }
  return bins;
}

bool do_fit(const StepProblem& problem, const StepPlan& plan) {
  for (const PackedBins& bins : plan.microbatches)
    for (std::int64_t bin = 0; bin < bins.bins(); ++bin) {
      Tokens tokens;
      for (const std::int32_t place : bins.bin(bin)) tokens += problem.samples[place].tokens;
      if (tokens > problem.capacity) return false;
    }
  return true;
}

/// Dispatches bins slot by slot; every replica has its costliest bins first.
StepPlan deal_rounds(const StepProblem& problem, const PackedBins& bins) {
  std::vector<std::int64_t> costs(static_cast<std::size_t>(bins.bins()));
  for (std::size_t bin = 0; bin < costs.size(); ++bin)
    for (const std::int32_t place : bins.bin(bin)) costs[bin] += problem.samples[place].sum().count;
  const std::vector<std::int32_t> replica_of_bin =
      dispatch_bins(costs, problem.replicas, Meeting::kMicrobatch);
  Places order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](std::int32_t bin) { return costs[bin]; });
  StepPlan plan;
  plan.replica_of.resize(problem.samples.size());
  plan.microbatches.assign(static_cast<std::size_t>(problem.replicas), {.first = {0}, .items = {}});
  for (const std::int32_t bin : order) {
    PackedBins& own = plan.microbatches[replica_of_bin[bin]];
    for (const std::int32_t place : bins.bin(bin)) {
      plan.replica_of[place] = replica_of_bin[bin];
      own.items.push_back(place);
    }
    std::sort(own.items.end() - std::ssize(bins.bin(bin)), own.items.end());
    own.first.push_back(static_cast<std::int32_t>(own.items.size()));
  }
  return plan;
}

/// Level buckets, one for each microbatch of each replica. They may exceed the capacity.
StepPlan share_rounds(const StepProblem& problem, std::int64_t rounds, bool limits_tokens) {
  const std::int64_t buckets = rounds * problem.replicas;
  const Balance shared = share_out(problem, buckets, limits_tokens);
  StepPlan plan = deal_rounds(problem, bins_of(shared.bucket_of, buckets));
  plan.gap = shared.gap();
  return plan;
}

/// Level replicas, and then level microbatches of each; null where one of them has fewer samples
/// than that.
std::optional<StepPlan> share_replicas(const StepProblem& problem, std::int64_t rounds) {
  const Balance shared = share_out(problem, problem.replicas, /*limits_tokens=*/false);
  StepPlan plan{.replica_of = shared.bucket_of, .microbatches = {}, .gap = shared.gap()};
  for (const Places& own : members_of(shared.bucket_of, problem.replicas)) {
    if (std::ssize(own) < rounds) return std::nullopt;
    std::vector<SampleLoad> samples;
    for (const std::int32_t place : own) samples.push_back(problem.samples[place]);
    StepProblem alone = problem;
    alone.samples = samples;
    alone.replicas = 1;
    alone.evaluations = std::max<std::int64_t>(1, evaluations_of(problem) / problem.replicas);
    PackedBins bins = std::move(share_rounds(alone, rounds, false).microbatches.front());
    for (std::int32_t& item : bins.items) item = own[item];
    plan.microbatches.push_back(std::move(bins));
  }
  return plan;
}

/// How late the slowest replica is, of the whole step: its excess on a chain over a lower bound.
double lateness(const StepProblem& problem, const StepPlan& plan) {
  std::int64_t level = 1;
  std::int64_t late = 0;
  for (const Loads& loads : loads_of_chains(problem.samples, problem.balance)) {
    const BalanceProblem times{.buckets = problem.replicas, .dimensions = 1, .loads = loads};
    const std::int64_t bound = balance_bound(times);
    level = std::max(level, bound);
    late = std::max(late, balance_value(times, plan.replica_of) - bound);
  }
  return static_cast<double>(late) / static_cast<double>(level);
}

/// Level microbatches without a capacity. A sample above their mean leaves all others level and its
/// replica late: replicas that meet once a step are made level first then.
StepPlan share_step(const StepProblem& problem, std::int64_t rounds) {
  StepPlan plan = share_rounds(problem, rounds, /*limits_tokens=*/false);
  if (problem.replicas == 1 || problem.meeting == Meeting::kMicrobatch) return plan;
  const double late = lateness(problem, plan);
  if (late <= kLateEnough) return plan;
  std::optional<StepPlan> by_replica = share_replicas(problem, rounds);
  return by_replica && lateness(problem, *by_replica) < late ? std::move(*by_replica)
                                                             : std::move(plan);
}

Places places_of_all(const StepProblem& problem) {
  Places all(problem.samples.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::int64_t rounds_of(const StepProblem& problem, std::int64_t bins) {
  return (bins + problem.replicas - 1) / problem.replicas;
}

/// Makes as many rounds as asked for, but no more than there are samples for and no fewer than the
/// capacity needs. Tokens count as a load only where level buckets exceed the capacity otherwise.
/// Where no level arrangement fits, bins are packed and the costliest ones split.
StepPlan level_rounds(const StepProblem& problem) {
  const std::int64_t asked =
      std::min(problem.microbatches, rounds_of(problem, std::ssize(problem.samples)));
  if (StepPlan plan = share_step(problem, asked); do_fit(problem, plan)) return plan;
  const Places all = places_of_all(problem);
  const PackedBins packed = pack_places(problem, all);
  const std::int64_t rounds = std::max(asked, rounds_of(problem, packed.bins()));
  if (StepPlan plan = share_rounds(problem, rounds, /*limits_tokens=*/true); do_fit(problem, plan))
    return plan;
  return deal_rounds(
      problem, split_to_multiple(packed, lengths_of(problem, all), {}, rounds * problem.replicas));
}

/// Puts the bins of a replica, which are sorted by cost, in the places of their rounds.
PackedBins put_in_places(const PackedBins& bins, std::int64_t rounds) {
  std::vector<std::int64_t> bin_at(static_cast<std::size_t>(bins.bins()));
  for (std::int64_t bin = 0; bin < bins.bins(); ++bin) bin_at[place_of_round(bin, rounds)] = bin;
  PackedBins ordered{.first = {0}, .items = {}};
  for (const std::int64_t bin : bin_at) {
    const std::span<const std::int32_t> items = bins.bin(bin);
    ordered.items.insert(ordered.items.end(), items.begin(), items.end());
    ordered.first.push_back(static_cast<std::int32_t>(ordered.items.size()));
  }
  return ordered;
}

/// A replica with one bin less than the others has none in the last round.
StepPlan put_in_places(StepPlan plan) {
  std::int64_t rounds = 0;
  for (const PackedBins& own : plan.microbatches) rounds = std::max(rounds, own.bins());
  for (PackedBins& own : plan.microbatches) own = put_in_places(own, rounds);
  return plan;
}

/// Balances every round. Where no level arrangement fits the capacity, it dispatches packed bins.
StepPlan balance_rounds(const StepProblem& problem) {
  const PackedBins packed = pack_places(problem, places_of_all(problem));
  if (problem.packing == config::Packing::kNone) return deal_rounds(problem, packed);
  const std::int64_t fewest = rounds_of(problem, packed.bins());
  for (std::int64_t rounds = fewest; rounds < fewest + kRoundsTried; ++rounds)
    if (StepPlan plan = share_rounds(problem, rounds, /*limits_tokens=*/true);
        do_fit(problem, plan))
      return plan;
  return deal_rounds(problem, packed);
}

}  // namespace

StepPlan plan_step(const StepProblem& problem) {
  TRIB_REQUIRE(problem.replicas >= 1 && problem.replicas <= kMaxReplicas,
               .what = "schedule: number of replicas out of range", .found = str(problem.replicas),
               .expected = str("1 to ", kMaxReplicas));
  const bool is_level = problem.packing == config::Packing::kLevel && !problem.samples.empty();
  TRIB_REQUIRE(!is_level || (problem.balance != config::Balance::kNone && problem.microbatches > 0),
               .what = "schedule: nothing to make microbatches level by",
               .found = str(problem.microbatches, " microbatches of each replica"),
               .expected = "a number of microbatches and a balance with packing level");
  if (is_level) return put_in_places(level_rounds(problem));
  const bool is_alone = problem.replicas == 1 || problem.samples.empty();
  if (is_alone || problem.balance == config::Balance::kNone)
    return pack_each(problem, deal_in_turn(problem));
  if (problem.meeting == Meeting::kMicrobatch) return balance_rounds(problem);
  const Balance shared = share_out(problem, problem.replicas, /*limits_tokens=*/false);
  StepPlan plan = pack_each(problem, shared.bucket_of);
  plan.gap = shared.gap();
  return plan;
}

bool operator==(const StepPlan& a, const StepPlan& b) {
  return a.replica_of == b.replica_of && a.gap == b.gap &&
         std::ranges::equal(a.microbatches, b.microbatches,
                            [](const PackedBins& one, const PackedBins& other) {
                              return one.first == other.first && one.items == other.items;
                            });
}

std::int64_t fingerprint(const StepPlan& plan) {
  std::uint64_t hash = plan.replica_of.size();
  const auto mix = [&](std::int64_t value) {
    hash = mix_bits(hash ^ (static_cast<std::uint64_t>(value) + 1));
  };
  for (const PackedBins& replica : plan.microbatches) {
    mix(replica.bins());
    for (const std::int32_t first : replica.first) mix(first);
    for (const std::int32_t item : replica.items) mix(item);
  }
  return static_cast<std::int64_t>(hash >> 2);
}

}  // namespace tributary::schedule
