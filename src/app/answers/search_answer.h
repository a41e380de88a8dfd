#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/requests/given_options.h"
#include "core/json.h"
#include "studies/methods/recompute_levels.h"

namespace tributary::app {

inline constexpr const char* kPublishedObjective = "published_objective";
inline constexpr const char* kAllMethods = "all";

struct SearchRequest {
  std::string method = kPublishedObjective;
  std::int64_t keep = 10;  // number of best plans from the published objective
  Caller caller = Caller::kCommandLine;
  std::string table = {};  // path or name of the cost table, for messages
};

struct MethodPlan {
  std::string text;
  double seconds = 0;                    // of a step
  std::optional<studies::Plan3d> exact;  // null where a method has more than degrees
  std::optional<studies::TrainerForm> form = {};
  config::RecomputePlan recompute = config::RecomputePlan::kNone;
};

/// One method's answer for a cost table.
struct SearchAnswer {
  std::string method;
  plan::Certificate certificate;
  std::vector<MethodPlan> plans;  // the best first
  double milliseconds = 0;
};

/// published_objective, then the published systems.
[[nodiscard]] std::vector<std::string> search_methods();

/// errors: Fault::kInput naming the argument that cannot be used
void check_request(const SearchRequest& request);

/// Solves cost tables by one method, or by all of them with one plan each. `levels` are tables for
/// several levels of recompute: each method takes the level that it is fastest with, the published
/// objective the best plans over all levels.
///
/// errors: Fault::kInput as check_request and the methods
[[nodiscard]] std::vector<SearchAnswer> answer_search(
    const SearchRequest& request, std::span<const studies::RecomputedTables> levels);

/// Why no plan file has the form of a method's best plan.
[[nodiscard]] std::string beyond_trainer(const SearchAnswer& answer);

/// The object that docs/guides/plan.md explains.
[[nodiscard]] Json to_json(const SearchAnswer& answer);

}  // namespace tributary::app
