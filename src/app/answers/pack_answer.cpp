#include "app/answers/pack_answer.h"

#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/stopwatch.h"
#include "schedule/dispatch_bins.h"
#include "schedule/pack.h"
#include "schedule/packing_bound.h"

namespace tributary::app {
namespace {

config::Packing find_rule(const PackRequest& request) {
  if (request.rule == "best_fit_decreasing") return config::Packing::kBestFitDecreasing;
  TRIB_REQUIRE(
      request.rule == "online_best_fit", .what = "app: unknown packing rule",
      .where = argument_name(request.caller, request.caller == Caller::kPython ? "method" : "rule"),
      .found = request.rule, .expected = "best_fit_decreasing or online_best_fit");
  return config::Packing::kOnlineBestFit;
}

schedule::Meeting find_meeting(const PackRequest& request) {
  if (request.meet == "step") return schedule::Meeting::kStep;
  TRIB_REQUIRE(request.meet == "microbatch", .what = "app: unknown meeting of replicas",
               .where = argument_name(request.caller, "meet"), .found = request.meet,
               .expected = "step or microbatch");
  return schedule::Meeting::kMicrobatch;
}

std::vector<Tokens> to_lengths(const PackRequest& request, const NumberTable& table) {
  TRIB_REQUIRE(table.width == 1, .what = "app: more than one length in a line",
               .where = table.place_of(0), .found = str(table.width, " numbers"),
               .expected = "one length in tokens");
  const Tokens capacity = {request.capacity};
  std::vector<Tokens> lengths;
  lengths.reserve(table.values.size());
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    const double length = table.values[row];
    TRIB_REQUIRE(
        length >= 1 && length <= static_cast<double>(capacity.count) &&
            length == std::floor(length),
        .what = "app: length cannot be packed", .where = table.place_of(row),
        .found = str(std::setprecision(17), length, " tokens"),
        .expected = str("a whole number, 1 to ", capacity),
        .fix = str("raise ", argument_name(request.caller, "capacity"), ", or drop the sample"));
    lengths.push_back({static_cast<std::int64_t>(length)});
  }
  return lengths;
}

}  // namespace

double PackAnswer::gap() const {
  return bound == 0 ? 0.0 : double(packed.bins()) / double(bound) - 1.0;
}

void check_request(const PackRequest& request) {
  const auto require = [&](bool fits, const char* name, std::int64_t found,
                           const std::string& expected) {
    TRIB_REQUIRE(fits, .what = "app: value cannot be used",
                 .where = argument_name(request.caller, name), .found = str(found),
                 .expected = expected);
  };
  require(request.capacity >= 1 && Tokens{request.capacity} <= schedule::kMaxCapacity, "capacity",
          request.capacity, str("1 to ", schedule::kMaxCapacity));
  require(request.replicas >= 1 && request.replicas <= schedule::kMaxReplicas, "replicas",
          request.replicas, str("1 to ", schedule::kMaxReplicas));
  require(request.window >= 0, "window", request.window, "0 (all) or above");
  require(request.attention_length >= 0, "attention_length", request.attention_length,
          "0 or above");
  (void)find_rule(request);
  (void)find_meeting(request);
}

PackAnswer answer_pack(const PackRequest& request, const NumberTable& table) {
  check_request(request);
  const std::vector<Tokens> lengths = to_lengths(request, table);
  const Stopwatch watch;
  PackAnswer answer;
  answer.packed =
      schedule::pack_windows(find_rule(request), lengths, {request.capacity}, request.window);
  const double per_pair =
      request.attention_length == 0 ? 0.0 : 1.0 / double(request.attention_length);
  const std::vector<std::int64_t> costs =
      cost_of_bins(answer.packed, lengths, {.per_token_pair = per_pair});
  answer.replica_of = schedule::dispatch_bins(costs, request.replicas, find_meeting(request));
  answer.bound = schedule::packing_bound(lengths, {request.capacity});
  answer.milliseconds = 1e3 * watch.seconds();

  answer.bin_of.resize(lengths.size());
  answer.costs.resize(static_cast<std::size_t>(request.replicas));
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

Json to_json(const PackAnswer& answer) {
  return {{"assignment", answer.bin_of},
          {"bins", answer.packed.bins()},
          {"loads", answer.loads},
          {"replica", answer.replica_of},
          {"replica_costs", answer.costs},
          {"value", answer.packed.bins()},
          {"lower_bound", answer.bound},
          {"gap", answer.gap()},
          {"milliseconds", answer.milliseconds}};
}

}  // namespace tributary::app
