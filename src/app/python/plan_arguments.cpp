#include "app/python/plan_arguments.h"

#include <nlohmann/json.hpp>

#include "app/answer/measured_machine.h"
#include "app/python/given_arguments.h"
#include "config/reading/artifact_object.h"

namespace tributary::app {
namespace {

constexpr config::WholeRange kWhole = {-(std::int64_t{1} << 53), std::int64_t{1} << 53};

/// Texts of a list; the package has checked that it is one.
std::vector<std::string> texts_of(const Json& json, const char* key) {
  std::vector<std::string> texts;
  if (!json.contains(key)) return texts;
  for (const Json& text : json.at(key)) texts.push_back(text.get<std::string>());
  return texts;
}

void read_options(Json json, PlanRequest& request) {
  request.frozen = texts_of(json, "freeze");
  request.schedules = texts_of(json, "schedules");
  request.axes = texts_of(json, "axes");
  for (const char* key : {"freeze", "schedules", "axes"}) json.erase(key);
  config::Problems problems;
  config::ArtifactObject options(json, "plan", "", problems);
  const auto whole = [&](const char* key, std::int64_t& field) {
    field = options.whole(key, field, kWhole);
  };
  whole("devices", request.devices);
  whole("global_samples", request.global_samples);
  whole("tokens", request.tokens);
  whole("batches", request.batches);
  whole("seed", request.seed);
  whole("candidates", request.candidates);
  whole("threads", request.threads);
  request.runnable = options.flag("runnable", request.runnable);
  request.explain = options.flag("explain", request.explain);
  options.refuse_unknown();
  problems.raise_if_any("plan");
}

}  // namespace

PlanRequest read_request(const PlanArguments& arguments) {
  PlanRequest request{.model = read_model(arguments.model),
                      .trainer = TrainerCheck(arguments.model)};
  request.caller = Caller::kPython;
  const Json options = parse_json(arguments.options, "plan");
  request.given = given_arguments(options, arguments.sizes || arguments.size_table);
  read_options(options, request);
  if (arguments.cluster) request.cluster = read_cluster(*arguments.cluster);
  if (arguments.profile) {
    request.profile = read_profile(*arguments.profile);
    request.profile_name = arguments.profile->where();
    if (arguments.model.is_path)
      check_profile_model(*request.profile, request.profile_name, arguments.model.text);
  }
  if (arguments.sizes) request.recorded = read_sizes(*arguments.sizes);
  if (arguments.size_table) request.recorded = sizes_of(*arguments.size_table);
  return request;
}

}  // namespace tributary::app
