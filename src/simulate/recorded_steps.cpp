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
#include "simulate/samples/deal_items.h"
#include "simulate/samples/deal_step.h"

namespace tributary::simulate {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kLargestSide = 1 << 16;  // of a grid

cost::MicrobatchShape read_microbatch(const Json& json, const std::string& where) {
  const bool fits = json.is_array() && (json.size() == 6 || json.size() == 9) &&
                    std::all_of(json.begin(), json.end(),
                                [](const Json& each) { return each.is_number_unsigned(); });
  TRIB_REQUIRE(fits, .what = "simulate: microbatch of a run cannot be read", .where = where,
               .found = escaped(json.dump()),
               .expected = "six whole numbers, 0 or above, or nine with sound beside images");
  const auto number = [&json](int i) { return json[i].get<double>(); };
  cost::MicrobatchShape shape;
  shape.backbone = {
      .tokens = number(0), .squared_tokens = number(1), .sequences = json[2].get<std::int64_t>()};
  shape.encoder = {
      .tokens = number(3), .squared_tokens = number(4), .sequences = json[5].get<std::int64_t>()};
  if (json.size() == 9)
    shape.audio = {
        .tokens = number(6), .squared_tokens = number(7), .sequences = json[8].get<std::int64_t>()};
  return shape;
}

/// A line of a replica's file, and where it stands.
struct RecordedLine {
  Json json;
  std::string where;
};

/// Reads the lines of one replica's steps.
std::vector<RecordedLine> read_lines(const std::string& path, std::int64_t skip) {
  std::istringstream lines(read_given_file(path, kMaxBytes,
                                           {.what = "simulate: shapes of a run cannot be read",
                                            .expected = "shapes.jsonl of a run's directory"}));
  std::vector<RecordedLine> steps;
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = str(path, ":", ++number);
    Json json = parse_json(line, where);
    TRIB_REQUIRE(json.is_object() && json.contains("step") && json.contains("microbatches") &&
                     json["step"].is_number_unsigned() && json["microbatches"].is_array(),
                 .what = "simulate: step of a run cannot be read", .where = where,
                 .expected = "step and microbatches");
    if (json["step"].get<std::int64_t>() > skip) steps.push_back({std::move(json), where});
  }
  return steps;
}

/// Reads the microbatches of one replica's steps.
std::vector<std::vector<cost::MicrobatchShape>> read_replica(const std::string& path,
                                                             std::int64_t skip) {
  std::vector<std::vector<cost::MicrobatchShape>> steps;
  for (const auto& [json, where] : read_lines(path, skip)) {
    std::vector<cost::MicrobatchShape>& step = steps.emplace_back();
    for (const Json& each : json["microbatches"]) step.push_back(read_microbatch(each, where));
  }
  return steps;
}

Grid read_grid(const Json& json, const std::string& where) {
  const bool fits = json.is_array() && json.size() == 3 &&
                    std::all_of(json.begin(), json.end(), [](const Json& each) {
                      return each.is_number_unsigned() && each.get<std::uint64_t>() > 0 &&
                             each.get<std::uint64_t>() <= kLargestSide;
                    });
  TRIB_REQUIRE(fits, .what = "simulate: image or clip of a run cannot be read", .where = where,
               .found = escaped(json.dump()),
               .expected = str("frames, rows and columns, 1 to ", kLargestSide));
  return {json[0].get<std::int64_t>(), json[1].get<std::int64_t>(), json[2].get<std::int64_t>()};
}

/// Adds the media of a replica's step to the rounds of the step.
void add_media(const RecordedLine& line, std::int32_t replica,
               std::vector<schedule::MediaRound>& rounds) {
  const Json& media = line.json["media"];
  TRIB_REQUIRE(media.is_array() && media.size() == line.json["microbatches"].size(),
               .what = "simulate: media of a run cannot be read", .where = line.where,
               .found = escaped(media.dump()), .expected = "a list for each microbatch");
  if (rounds.size() < media.size()) rounds.resize(media.size());
  for (std::size_t round = 0; round < media.size(); ++round)
    for (const Json& each : media[round]) {
      schedule::MediaItem& item = rounds[round].emplace_back();
      item.grid = read_grid(each, line.where);
      item.replica = replica;
    }
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

using Microbatches = std::vector<std::vector<cost::MicrobatchShape>>;  // [replicas][rounds]

void add(cost::PassShape& sum, const cost::PassShape& pass) {
  sum.tokens += pass.tokens;
  sum.squared_tokens += pass.squared_tokens;
  sum.sequences += pass.sequences;
}

cost::PassShape part_of(const cost::PassShape& sum, std::int64_t parts) {
  const auto count = static_cast<double>(parts);
  return {.tokens = sum.tokens / count,
          .squared_tokens = sum.squared_tokens / count,
          .sequences = (sum.sequences + parts - 1) / parts};
}

/// What an encoder with a mesh of its own has in each of its passes: an equal part of a round, or
/// of the whole step where it is colocated, because the run did not record more.
Microbatches share_out(const schedule::PipelineModule& module, const Microbatches& recorded) {
  const std::size_t rounds = recorded.front().size();
  Microbatches shares(static_cast<std::size_t>(module.replicas),
                      std::vector<cost::MicrobatchShape>(rounds, empty_shape()));
  std::vector<cost::MicrobatchShape> sums(rounds, empty_shape());
  const auto passes = static_cast<std::size_t>(module.passes_of(static_cast<int>(rounds)));
  for (const auto& replica : recorded)
    for (std::size_t round = 0; round < rounds; ++round) {
      cost::MicrobatchShape& sum = sums[module.is_colocated() ? 0 : round];
      add(sum.encoder, replica[round].encoder);
      add(sum.audio, replica[round].audio);
    }
  for (std::size_t pass = 0; pass < passes; ++pass) {
    const cost::MicrobatchShape& sum = sums[module.is_colocated() ? 0 : pass];
    const std::int64_t parts =
        module.replicas * (module.is_colocated() ? static_cast<std::int64_t>(passes) : 1);
    for (auto& replica : shares) {
      replica[pass].encoder = part_of(sum.encoder, parts);
      replica[pass].audio = part_of(sum.audio, parts);
    }
  }
  return shares;
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

RecordedMedia read_recorded_media(const std::string& run, std::int64_t skip) {
  RecordedMedia media;
  std::int32_t replica = 0;
  for (const auto& [rank, path] : shape_files(run)) {
    const std::vector<RecordedLine> lines = read_lines(path, skip);
    if (std::ranges::any_of(lines, [](const auto& line) { return !line.json.contains("media"); }))
      return {};
    media.resize(std::max(media.size(), lines.size()));
    for (std::size_t step = 0; step < lines.size(); ++step)
      add_media(lines[step], replica, media[step]);
    ++replica;
  }
  return media;
}

Simulation simulate_recorded(const config::Plan& plan, const cost::StageCosts& costs,
                             const config::Cluster& cluster, const SimulationOptions& options,
                             const RecordedSteps& recorded, const RecordedMedia& media) {
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  const ItemDealer items(plan, pipeline, costs);
  TRIB_REQUIRE(media.empty() || media.size() == recorded.size(),
               .what = "simulate: run has media of other steps", .where = "shapes.jsonl",
               .found = str(media.size()), .expected = str(recorded.size(), " steps"));
  SimulationOptions of_run = options;
  of_run.steps = std::ssize(recorded);
  of_run.samples = {.kind = SampleSource::Kind::kGiven, .recorded = {}, .given = {}};
  for (std::size_t step = 0; step < recorded.size(); ++step) {
    std::vector<std::vector<cost::MicrobatchShape>> replicas = recorded[step];
    std::size_t fullest = 0;
    for (const auto& replica : replicas) fullest = std::max(fullest, replica.size());
    const auto rounds = static_cast<std::size_t>(schedule::count_rounds(pipeline, fullest));
    for (auto& replica : replicas) replica.resize(rounds, idle_microbatch());
    StepShapes& shapes = of_run.samples.given.emplace_back();
    const auto at_backbone = static_cast<int>(schedule::backbone_of(pipeline));
    const schedule::PipelineModule& backbone = pipeline.modules[at_backbone];
    TRIB_REQUIRE(std::ssize(replicas) == backbone.replicas,
                 .what = "simulate: run has another number of replicas than the plan",
                 .where = "modules.backbone.mesh", .found = str(backbone.replicas, " replicas"),
                 .expected = str(replicas.size()));
    for (int index = 0; index < std::ssize(pipeline.modules); ++index) {
      if (!media.empty() && items.deals_to(index))
        shapes.push_back(items.deal(index, media[step], rounds));
      else
        shapes.push_back(index == at_backbone ? replicas
                                              : share_out(pipeline.modules[index], replicas));
    }
  }
  return simulate(plan, costs, cluster, of_run);
}

}  // namespace tributary::simulate
