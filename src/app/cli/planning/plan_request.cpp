#include "app/cli/planning/plan_request.h"

#include <filesystem>
#include <sstream>
#include <utility>
#include <vector>

#include "app/answer/measured_machine.h"
#include "app/answer/simulate_answer.h"
#include "app/cli/output_file.h"
#include "config/run/read_run_config.h"
#include "core/error.h"

namespace tributary::app {
namespace {

std::vector<std::string> words_of(const char* option, const std::string& list) {
  std::vector<std::string> words;
  std::istringstream stream(list);
  for (std::string word; std::getline(stream, word, ',');) {
    const std::size_t begin = word.find_first_not_of(' ');
    if (begin == std::string::npos) continue;
    words.push_back(word.substr(begin, word.find_last_not_of(' ') + 1 - begin));
  }
  TRIB_REQUIRE(list.empty() || !words.empty(), .what = "app: list names nothing", .where = option,
               .found = escaped(list), .expected = "names, a comma between them",
               .fix = "leave it out for the default");
  return words;
}

/// What CONFIG says beyond the model.
struct Setting {
  std::string model;  // as the plan names it
  std::int64_t global_samples = 512;
  std::int64_t tokens = 4096;
  std::vector<std::string> frozen = {};
  config::RunConfig run = {};  // that the plan would be of
};

bool is_run_config(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension();
  return extension == ".yaml" || extension == ".yml";
}

/// A number that the user gave, where its default is one of another place.
void require_number(const ModelPlanning& arguments, const std::string& option, std::int64_t value) {
  TRIB_REQUIRE(value >= 1 || !arguments.given.has(option), .what = "app: value cannot be used",
               .where = option, .found = str(value), .expected = "1 or more",
               .fix = "leave it out for the default");
}

Setting read_setting(const ModelPlanning& arguments) {
  require_number(arguments, "--global-samples", arguments.global_samples);
  require_number(arguments, "--tokens", arguments.tokens);
  require_number(arguments, "--devices", arguments.devices);
  Setting setting{.model = arguments.path};
  if (is_run_config(arguments.path)) {
    const config::RunConfig run = config::read_run_config(arguments.path);
    setting.model = run.model.path;
    setting.run = run;
    TRIB_REQUIRE(
        std::filesystem::exists(setting.model),
        .what = "app: model of the run configuration is not there",
        .where = arguments.path + " model.path", .found = setting.model,
        .expected = str("a directory with a config.json, or a module graph, at ",
                        std::filesystem::absolute(setting.model).string()),
        .fix = "its paths are seen from the current folder: run there, or give a whole one");
    setting.global_samples = run.batch.global_samples;
    setting.tokens = run.batch.capacity_tokens.count;
    setting.frozen = run.model.freeze;
  }
  if (arguments.global_samples != 0) setting.global_samples = arguments.global_samples;
  if (arguments.tokens != 0) setting.tokens = arguments.tokens;
  for (std::string& module : words_of("--freeze", arguments.freeze))
    setting.frozen.push_back(module);
  return setting;
}

/// The path of the model as seen from the folder of the plan.
std::string seen_from(const std::string& output, const std::string& model) {
  const std::filesystem::path folder =
      std::filesystem::absolute(output).lexically_normal().parent_path();
  return std::filesystem::absolute(model).lexically_normal().lexically_relative(folder).string();
}

}  // namespace

ModelRequest read_model_request(const ModelPlanning& arguments) {
  const Setting setting = read_setting(arguments);
  PlanRequest request{
      .model = read_graph(setting.model),
      .trainer = TrainerCheck({.name = "CONFIG", .text = setting.model}, setting.run)};
  if (!arguments.cluster.empty()) request.cluster = config::read_cluster(arguments.cluster);
  if (!arguments.profile.empty()) {
    request.profile = config::read_profile(arguments.profile);
    check_profile_model(*request.profile, arguments.profile, setting.model);
  }
  request.profile_name = arguments.profile;
  request.threads = arguments.threads;
  if (!arguments.lengths.empty()) request.recorded = read_sizes(arguments.lengths);
  request.frozen = setting.frozen;
  request.schedules = words_of("--schedules", arguments.schedules);
  request.axes = words_of("--axes", arguments.axes);
  request.devices = arguments.devices;
  request.global_samples = setting.global_samples;
  request.tokens = setting.tokens;
  request.batches = arguments.batches;
  request.seed = arguments.seed;
  request.candidates = arguments.candidates;
  request.runnable = arguments.runnable;
  request.explain = arguments.explain;
  request.given = arguments.given;
  return {setting.model, std::move(request)};
}

void check_plan_output(const ModelPlanning& arguments) {
  check_output(arguments.output, {arguments.path, arguments.path + "/config.json",
                                  arguments.cluster, arguments.profile, arguments.lengths});
}

void write_plan_of(const std::string& model, config::Plan plan, const std::string& output) {
  if (output.empty()) return;
  plan.model = seen_from(output, model);
  config::check_plan(plan, output);
  write_output(output, config::write_plan(plan));
}

}  // namespace tributary::app
