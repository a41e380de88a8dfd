#include "simulate/recorded_steps.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "core/file/given_file.h"
#include "core/json.h"
#include "core/text.h"
#include "schedule/pipeline/count_rounds.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "simulate/samples/deal_step.h"

namespace tributary::simulate {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

cost::MicrobatchShape read_microbatch(const Json& json, const std::string& where) {
  const bool fits = json.is_array() && json.size() == 6 &&
                    std::all_of(json.begin(), json.end(),
                                [](const Json& each) { return each.is_number_unsigned(); });
  TRIB_REQUIRE(fits, .what = "simulate: microbatch of a run cannot be read", .where = where,
               .found = escaped(json.dump()), .expected = "six whole numbers, 0 or above");
  const auto number = [&json](int i) { return json[i].get<double>(); };
  cost::MicrobatchShape shape;
  shape.backbone = {
      .tokens = number(0), .squared_tokens = number(1), .sequences = json[2].get<std::int64_t>()};
  shape.encoder = {
      .tokens = number(3), .squared_tokens = number(4), .sequences = json[5].get<std::int64_t>()};
  return shape;
}

/// Reads the steps of one replica.
std::vector<std::vector<cost::MicrobatchShape>> read_replica(const std::string& path,
                                                             std::int64_t skip) {
  std::istringstream lines(read_given_file(path, kMostBytes,
                                           {.what = "simulate: shapes of a run cannot be read",
                                            .expected = "shapes.jsonl of a run's directory"}));
  std::vector<std::vector<cost::MicrobatchShape>> steps;
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = str(path, ":", ++number);
    const Json json = parse_json(line, where);
    TRIB_REQUIRE(json.is_object() && json.contains("step") && json.contains("microbatches") &&
                     json["step"].is_number_unsigned() && json["microbatches"].is_array(),
                 .what = "simulate: step of a run cannot be read", .where = where,
                 .expected = "step and microbatches");
    if (json["step"].get<std::int64_t>() <= skip) continue;
    std::vector<cost::MicrobatchShape>& step = steps.emplace_back();
    for (const Json& each : json["microbatches"]) step.push_back(read_microbatch(each, where));
  }
  return steps;
}

/// The files, by the rank that wrote them.
std::map<std::int64_t, std::string> shape_files(const std::string& run) {
  TRIB_REQUIRE(fs::is_directory(run), .what = "simulate: no run to read shapes of", .where = run,
               .found = "no directory", .expected = "the directory of a run");
  std::map<std::int64_t, std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(run)) {
    const std::string name = entry.path().filename().string();
    if (name == "shapes.jsonl") files[0] = entry.path().string();
    if (name.starts_with("shapes-") && name.ends_with(".jsonl"))
      files[std::atoll(name.c_str() + 7)] = entry.path().string();
  }
  TRIB_REQUIRE(!files.empty(), .what = "simulate: run has no shapes", .where = run,
               .found = "no shapes.jsonl", .expected = "a run of this version");
  return files;
}

}  // namespace

RecordedSteps read_recorded_steps(const std::string& run, std::int64_t skip) {
  RecordedSteps recorded;
  for (const auto& [rank, path] : shape_files(run)) {
    const auto steps = read_replica(path, skip);
    if (recorded.empty()) recorded.resize(steps.size());
    TRIB_REQUIRE(steps.size() == recorded.size() && !steps.empty(),
                 .what = "simulate: replicas of a run have other steps", .where = path,
                 .found = str(steps.size(), " steps after ", skip),
                 .expected = recorded.empty() ? "at least one" : str(recorded.size()));
    for (std::size_t step = 0; step < steps.size(); ++step) recorded[step].push_back(steps[step]);
  }
  return recorded;
}

Simulation simulate_recorded(const config::Plan& plan, const cost::StageCosts& costs,
                             const config::Cluster& cluster, const SimulationOptions& options,
                             const RecordedSteps& recorded) {
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  SimulationOptions of_run = options;
  of_run.steps = std::ssize(recorded);
  of_run.samples = {.kind = SampleSource::Kind::kGiven, .recorded = {}, .given = {}};
  for (std::vector<std::vector<cost::MicrobatchShape>> replicas : recorded) {
    std::size_t fullest = 0;
    for (const auto& replica : replicas) fullest = std::max(fullest, replica.size());
    const auto rounds = static_cast<std::size_t>(schedule::count_rounds(pipeline, fullest));
    for (auto& replica : replicas) replica.resize(rounds, idle_microbatch());
    StepShapes& shapes = of_run.samples.given.emplace_back();
    for (const schedule::PipelineModule& module : pipeline.modules) {
      TRIB_REQUIRE(std::ssize(replicas) == module.replicas,
                   .what = "simulate: run has another number of replicas than the plan",
                   .where = str("modules.", module.name, ".mesh"),
                   .found = str(module.replicas, " replicas"), .expected = str(replicas.size()));
      shapes.push_back(replicas);
    }
  }
  return simulate(plan, costs, cluster, of_run);
}

}  // namespace tributary::simulate
