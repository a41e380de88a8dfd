#include <algorithm>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/answers/balance_answer.h"
#include "app/answers/pack_answer.h"
#include "app/cli/commands.h"
#include "app/cli/planning/show_quantities.h"
#include "core/error.h"
#include "core/join.h"

namespace tributary::app {
namespace {

// ---- pack ----

struct PackArguments {
  std::string path;
  PackRequest request;
  bool json = false;
};

void print_as_text(const PackAnswer& answer, const PackRequest& request) {
  const std::int64_t bins = answer.packed.bins();
  std::int64_t tokens = 0;
  for (const std::int64_t load : answer.loads) tokens += load;
  std::cout << answer.bin_of.size() << " samples, " << tokens << " tokens in " << bins
            << " sequences of " << request.capacity << " tokens, fill "
            << in_percent(double(tokens) / double(bins) / double(request.capacity), 3) << '\n'
            << "at least " << answer.bound << " are needed, gap " << in_percent(answer.gap(), 3)
            << "; " << str(std::setprecision(3), answer.milliseconds) << " ms\n";
  if (request.replicas > 1) {
    const std::int64_t largest = *std::max_element(answer.costs.begin(), answer.costs.end());
    std::int64_t total = 0;
    for (const std::int64_t cost : answer.costs) total += cost;
    std::cout << "over " << request.replicas << " replicas: the costliest is "
              << in_percent(double(largest) * double(request.replicas) / double(total) - 1, 3)
              << " above the mean\n";
  }
  for (std::int64_t bin = 0; bin < bins; ++bin) {
    std::cout << "sequence " << bin << ", replica " << answer.replica_of[bin] << ", "
              << answer.loads[bin] << " tokens: " << join(answer.packed.bin(bin), " ") << '\n';
  }
}

ExitCode run_pack(const PackArguments& arguments) {
  check_request(arguments.request);
  const PackAnswer answer = answer_pack(arguments.request, read_table(arguments.path));
  if (arguments.json) {
    std::cout << to_json(answer).dump() << '\n';
  } else {
    print_as_text(answer, arguments.request);
  }
  return ExitCode::kDone;
}

// ---- balance ----

struct BalanceArguments {
  std::string path;
  BalanceRequest request;
  bool json = false;
};

void print_as_text(const BalanceAnswer& answer, const NumberTable& table) {
  const BucketSums& sums = answer.sums;
  std::cout << table.rows() << " items in " << table.width << " dimensions over " << sums.buckets
            << " buckets\n"
            << "largest load " << sums.number(sums.value).dump() << ", at least "
            << sums.number(sums.lower_bound).dump() << ", gap " << in_percent(answer.gap(), 3)
            << " (" << name_of(answer.found.status) << "); "
            << str(std::setprecision(3), answer.milliseconds) << " ms\n";
  std::vector<std::vector<std::int32_t>> members(static_cast<std::size_t>(sums.buckets));
  for (std::size_t item = 0; item < answer.found.bucket_of.size(); ++item) {
    members[answer.found.bucket_of[item]].push_back(static_cast<std::int32_t>(item));
  }
  for (std::int64_t bucket = 0; bucket < sums.buckets; ++bucket) {
    std::cout << "bucket " << bucket << ',';
    for (std::int64_t column = 0; column < sums.width; ++column) {
      if (!table.columns.empty()) std::cout << ' ' << escaped(table.columns[column]);
      std::cout << ' ' << sums.number(sums.at(bucket, column)).dump();
    }
    std::cout << ": " << join(members[bucket], " ") << '\n';
  }
}

ExitCode run_balance(const BalanceArguments& arguments) {
  check_request(arguments.request);
  const NumberTable table = read_table(arguments.path);
  const BalanceAnswer answer = answer_balance(arguments.request, table);
  if (arguments.json) {
    std::cout << to_json(answer).dump() << '\n';
  } else {
    print_as_text(answer, table);
  }
  return ExitCode::kDone;
}

}  // namespace

Run declare_pack(Verb& verb) {
  const auto arguments = std::make_shared<PackArguments>();
  verb.positional("LENGTHS.txt", arguments->path,
                  "a sample's length in tokens in each line; -: the standard input");
  verb.required("--capacity", arguments->request.capacity, "longest sequence [tokens]");
  verb.option("--replicas", arguments->request.replicas,
              "data-parallel replicas that share the sequences");
  verb.option(
      "--window", arguments->request.window,
      "samples packed together: best_fit_decreasing packs each so many lines by themselves, "
      "online_best_fit closes a sequence so many lines after its first; 0: all");
  verb.option("--rule", arguments->request.rule,
              "best_fit_decreasing, or online_best_fit: in the order of the lines");
  verb.option("--meet", arguments->request.meet,
              "how replicas wait for each other: step (sums of costs are levelled) or microbatch "
              "(so are the costs of each slot, as FSDP wants)");
  verb.option("--attention-length", arguments->request.attention_length,
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
  verb.required("--buckets", arguments->request.buckets, "buckets to share the items over");
  verb.option("--deadline-ms", arguments->request.deadline_ms,
              "end the search after this time [ms]; 0: after a fixed number of evaluations, with "
              "the same result on every machine");
  verb.option("--evaluations", arguments->request.evaluations,
              "end the search after so many arrangements; 0: after 8,000,000");
  verb.flag("--json", arguments->json,
            "print one JSON object: assignment (of each item to a bucket), buckets, loads, value, "
            "lower_bound, gap, status, milliseconds");
  verb.example("tributary balance items.csv --buckets 256 --deadline-ms 100 --json");
  return [arguments] { return run_balance(*arguments); };
}

}  // namespace tributary::app
