#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli/commands.h"
#include "app/table/read_table.h"
#include "app/table/scale_loads.h"
#include "core/error.h"
#include "core/stopwatch.h"
#include "schedule/balance/balance.h"
#include "schedule/dispatch_bins.h"
#include "schedule/pack.h"
#include "schedule/packing_bound.h"

namespace tributary::app {
namespace {

using schedule::Balance;
using schedule::PackedBins;

double gap_of(double value, double bound) { return bound == 0 ? 0.0 : value / bound - 1.0; }

std::string percent(double share) {
  return str(std::fixed, std::setprecision(3), 100 * share, " %");
}

std::string join(std::span<const std::int32_t> numbers) {
  std::string text;
  for (const std::int32_t number : numbers) text += str(text.empty() ? "" : " ", number);
  return text;
}

// ---- pack ----

struct PackArguments {
  std::string path;
  std::int64_t capacity = 0;
  std::int64_t replicas = 1;
  std::string rule = "best_fit_decreasing";
  std::string meet = "step";
  std::int64_t attention_length = 0;
  bool json = false;
};

struct PackAnswer {
  PackedBins packed;
  std::vector<std::int32_t> bin_of;      // [items]
  std::vector<std::int64_t> loads;       // [bins]: tokens
  std::vector<std::int32_t> replica_of;  // [bins]
  std::vector<std::int64_t> costs;       // [replicas]
  std::int64_t bound = 0;
  double milliseconds = 0;
};

config::Packing find_rule(const std::string& name) {
  if (name == "best_fit_decreasing") return config::Packing::kBestFitDecreasing;
  TRIB_REQUIRE(name == "online_best_fit", .what = "app: unknown packing rule", .where = "--rule",
               .found = name, .expected = "best_fit_decreasing or online_best_fit");
  return config::Packing::kOnlineBestFit;
}

schedule::Meeting find_meeting(const std::string& name) {
  if (name == "step") return schedule::Meeting::kStep;
  TRIB_REQUIRE(name == "microbatch", .what = "app: unknown meeting of replicas", .where = "--meet",
               .found = name, .expected = "step or microbatch");
  return schedule::Meeting::kMicrobatch;
}

std::vector<Tokens> to_lengths(const NumberTable& table, Tokens capacity) {
  TRIB_REQUIRE(table.width == 1, .what = "app: more than one length in a line",
               .where = table.place_of(0), .found = str(table.width, " numbers"),
               .expected = "one length in tokens");
  std::vector<Tokens> lengths;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    const double length = table.values[row];
    TRIB_REQUIRE(length >= 1 && length <= static_cast<double>(capacity.count) &&
                     length == std::floor(length),
                 .what = "app: length cannot be packed", .where = table.place_of(row),
                 .found = str(std::setprecision(17), length, " tokens"),
                 .expected = str("a whole number, 1 to ", capacity),
                 .fix = "raise --capacity, or drop the sample");
    lengths.push_back({static_cast<std::int64_t>(length)});
  }
  return lengths;
}

PackAnswer solve_pack(const PackArguments& arguments, std::span<const Tokens> lengths) {
  const Stopwatch watch;
  PackAnswer answer;
  answer.packed = schedule::pack(find_rule(arguments.rule), lengths, {arguments.capacity});
  const double per_pair =
      arguments.attention_length == 0 ? 0.0 : 1.0 / double(arguments.attention_length);
  const std::vector<std::int64_t> costs =
      cost_of_bins(answer.packed, lengths, {.per_token_pair = per_pair});
  answer.replica_of =
      schedule::dispatch_bins(costs, arguments.replicas, find_meeting(arguments.meet));
  answer.bound = schedule::packing_bound(lengths, {arguments.capacity});
  answer.milliseconds = 1e3 * watch.seconds();

  answer.bin_of.resize(lengths.size());
  answer.costs.resize(static_cast<std::size_t>(arguments.replicas));
  for (std::int64_t bin = 0; bin < answer.packed.bins(); ++bin) {
    answer.loads.push_back(0);
    answer.costs[answer.replica_of[bin]] += costs[bin];
    for (const std::int32_t item : answer.packed.bin(bin)) {
      answer.bin_of[item] = static_cast<std::int32_t>(bin);
      answer.loads.back() += lengths[item].count;
    }
  }
  return answer;
}

void print_as_json(const PackAnswer& answer) {
  const std::int64_t bins = answer.packed.bins();
  std::cout << Json{{"assignment", answer.bin_of},
                    {"bins", bins},
                    {"loads", answer.loads},
                    {"replica", answer.replica_of},
                    {"replica_costs", answer.costs},
                    {"value", bins},
                    {"lower_bound", answer.bound},
                    {"gap", gap_of(double(bins), double(answer.bound))},
                    {"milliseconds", answer.milliseconds}}
                   .dump()
            << '\n';
}

void print_as_text(const PackAnswer& answer, const PackArguments& arguments) {
  const std::int64_t bins = answer.packed.bins();
  std::int64_t tokens = 0;
  for (const std::int64_t load : answer.loads) tokens += load;
  std::cout << answer.bin_of.size() << " samples, " << tokens << " tokens in " << bins
            << " sequences of " << arguments.capacity << " tokens, fill "
            << percent(double(tokens) / double(bins) / double(arguments.capacity)) << '\n'
            << "at least " << answer.bound << " are needed, gap "
            << percent(gap_of(double(bins), double(answer.bound))) << "; "
            << str(std::setprecision(3), answer.milliseconds) << " ms\n";
  if (arguments.replicas > 1) {
    const std::int64_t largest = *std::max_element(answer.costs.begin(), answer.costs.end());
    std::int64_t total = 0;
    for (const std::int64_t cost : answer.costs) total += cost;
    std::cout << "over " << arguments.replicas << " replicas: the costliest is "
              << percent(double(largest) * double(arguments.replicas) / double(total) - 1)
              << " above the mean\n";
  }
  for (std::int64_t bin = 0; bin < bins; ++bin) {
    std::cout << "sequence " << bin << ", replica " << answer.replica_of[bin] << ", "
              << answer.loads[bin] << " tokens: " << join(answer.packed.bin(bin)) << '\n';
  }
}

ExitCode run_pack(const PackArguments& arguments) {
  TRIB_REQUIRE(arguments.capacity >= 1 && Tokens{arguments.capacity} <= schedule::kMostCapacity,
               .what = "app: value cannot be used", .where = "--capacity",
               .found = str(arguments.capacity), .expected = str("1 to ", schedule::kMostCapacity));
  TRIB_REQUIRE(arguments.replicas >= 1 && arguments.replicas <= schedule::kMostReplicas,
               .what = "app: value cannot be used", .where = "--replicas",
               .found = str(arguments.replicas), .expected = str("1 to ", schedule::kMostReplicas));
  TRIB_REQUIRE(arguments.attention_length >= 0, .what = "app: value cannot be used",
               .where = "--attention-length", .found = str(arguments.attention_length),
               .expected = "0 or above");
  (void)find_rule(arguments.rule);
  (void)find_meeting(arguments.meet);
  const std::vector<Tokens> lengths =
      to_lengths(read_table(arguments.path), Tokens{arguments.capacity});
  const PackAnswer answer = solve_pack(arguments, lengths);
  arguments.json ? print_as_json(answer) : print_as_text(answer, arguments);
  return ExitCode::kDone;
}

// ---- balance ----

struct BalanceArguments {
  std::string path;
  std::int64_t buckets = 0;
  double deadline_ms = 0;
  bool json = false;
};

std::string status_of(const Balance& found) {
  switch (found.status) {
    case schedule::BalanceStatus::kOptimal:
      return "optimal";
    case schedule::BalanceStatus::kFeasible:
      return "feasible";
    case schedule::BalanceStatus::kTruncated:
      return "truncated";
  }
  TRIB_RAISE(Fault::kBug, .what = "app: status without a name");
}

Balance solve_balance(const BalanceArguments& arguments, const ScaledLoads& loads,
                      const Stopwatch& watch) {
  schedule::BalanceBudget budget;
  if (arguments.deadline_ms > 0) {
    budget.is_late = [&] { return 1e3 * watch.seconds() >= arguments.deadline_ms; };
  }
  return balance({.buckets = arguments.buckets, .dimensions = loads.width, .loads = loads.whole},
                 budget);
}

void print_as_json(const Balance& found, const BucketSums& sums, double milliseconds) {
  Json loads = Json::array();
  for (std::int64_t bucket = 0; bucket < sums.buckets; ++bucket) {
    Json row = Json::array();
    for (std::int64_t column = 0; column < sums.width; ++column) {
      row.push_back(sums.number(sums.at(bucket, column)));
    }
    loads.push_back(std::move(row));
  }
  std::cout << Json{{"assignment", found.bucket_of},
                    {"buckets", sums.buckets},
                    {"loads", loads},
                    {"value", sums.number(sums.value)},
                    {"lower_bound", sums.number(sums.lower_bound)},
                    {"gap", gap_of(sums.value, sums.lower_bound)},
                    {"status", status_of(found)},
                    {"milliseconds", milliseconds}}
                   .dump()
            << '\n';
}

void print_as_text(const Balance& found, const BucketSums& sums, const NumberTable& table,
                   double milliseconds) {
  std::cout << table.rows() << " items in " << table.width << " dimensions over " << sums.buckets
            << " buckets\n"
            << "largest load " << sums.number(sums.value).dump() << ", at least "
            << sums.number(sums.lower_bound).dump() << ", gap "
            << percent(gap_of(sums.value, sums.lower_bound)) << " (" << status_of(found) << "); "
            << str(std::setprecision(3), milliseconds) << " ms\n";
  std::vector<std::vector<std::int32_t>> members(static_cast<std::size_t>(sums.buckets));
  for (std::size_t item = 0; item < found.bucket_of.size(); ++item) {
    members[found.bucket_of[item]].push_back(static_cast<std::int32_t>(item));
  }
  for (std::int64_t bucket = 0; bucket < sums.buckets; ++bucket) {
    std::cout << "bucket " << bucket << ',';
    for (std::int64_t column = 0; column < sums.width; ++column) {
      if (!table.columns.empty()) std::cout << ' ' << escaped(table.columns[column]);
      std::cout << ' ' << sums.number(sums.at(bucket, column)).dump();
    }
    std::cout << ": " << join(members[bucket]) << '\n';
  }
}

ExitCode run_balance(const BalanceArguments& arguments) {
  TRIB_REQUIRE(arguments.buckets >= 1 && arguments.buckets <= schedule::kMostBuckets,
               .what = "app: value cannot be used", .where = "--buckets",
               .found = str(arguments.buckets), .expected = str("1 to ", schedule::kMostBuckets));
  TRIB_REQUIRE(arguments.deadline_ms >= 0 && std::isfinite(arguments.deadline_ms),
               .what = "app: value cannot be used", .where = "--deadline-ms",
               .found = str(arguments.deadline_ms), .expected = "0 (none) or above");
  const NumberTable table = read_table(arguments.path);
  const ScaledLoads loads = scale_loads(table);
  const Stopwatch watch;
  const Balance found = solve_balance(arguments, loads, watch);
  const double milliseconds = 1e3 * watch.seconds();
  const BucketSums sums = sum_buckets(table, loads, found, arguments.buckets);
  arguments.json ? print_as_json(found, sums, milliseconds)
                 : print_as_text(found, sums, table, milliseconds);
  return ExitCode::kDone;
}

}  // namespace

Run declare_pack(Verb& verb) {
  const auto arguments = std::make_shared<PackArguments>();
  verb.positional("LENGTHS.txt", arguments->path,
                  "a sample's length in tokens in each line; -: the standard input");
  verb.required("--capacity", arguments->capacity, "longest sequence [tokens]");
  verb.option("--replicas", arguments->replicas, "data-parallel replicas that share the sequences");
  verb.option("--rule", arguments->rule,
              "best_fit_decreasing, or online_best_fit: in the order of the lines");
  verb.option("--meet", arguments->meet,
              "how replicas wait for each other: step (sums of costs are levelled) or microbatch "
              "(so are the costs of each slot, as FSDP wants)");
  verb.option("--attention-length", arguments->attention_length,
              "length at which a sample's attention costs as much as all else [tokens]; 0: a "
              "sequence costs its tokens");
  verb.flag("--json", arguments->json,
            "print one JSON object: assignment (of each line to a sequence), bins, loads, replica, "
            "replica_costs, value, lower_bound, gap, milliseconds");
  verb.example("tributary pack lengths.txt --capacity 8192 --replicas 8 --json");
  return [arguments] { return run_pack(*arguments); };
}

Run declare_balance(Verb& verb) {
  const auto arguments = std::make_shared<BalanceArguments>();
  verb.positional("ITEMS.csv", arguments->path,
                  "an item's loads in each line, a column for each dimension, all of one unit; a "
                  "header line is optional; -: the standard input");
  verb.required("--buckets", arguments->buckets, "buckets to share the items over");
  verb.option("--deadline-ms", arguments->deadline_ms,
              "end the search after this time [ms]; 0: after a fixed number of evaluations, with "
              "the same result on every machine");
  verb.flag("--json", arguments->json,
            "print one JSON object: assignment (of each item to a bucket), buckets, loads, value, "
            "lower_bound, gap, status, milliseconds");
  verb.example("tributary balance items.csv --buckets 256 --deadline-ms 100 --json");
  return [arguments] { return run_balance(*arguments); };
}

}  // namespace tributary::app
