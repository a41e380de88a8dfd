#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/answers/staging_answer.h"
#include "app/requests/read_document.h"
#include "config/reading/yaml_json.h"
#include "config/study/study.h"
#include "config/trace/trace.h"
#include "core/error.h"
#include "core/json.h"
#include "simulate/recorded_steps.h"

namespace tributary::app {
namespace {

namespace fs = std::filesystem;

const fs::path kConfigs(str(TRIB_SOURCE_DIR, "/configs"));

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

Json document(const fs::path& path) {
  return config::parse_yaml_as_json(text_of(path), path.string());  // JSON is YAML
}

Json parsed(const char* text) { return Json::parse(text); }

/// One kind of artifact: a document that its reader accepts.
struct Artifact {
  std::string name;
  Json valid;
  std::function<void(const std::string& text)> read;
};

constexpr const char* kProfile = R"({"format": "tributary.profile/1", "model": "m", "device": "d",
 "cores": 2, "launch_ns": 50, "noise": 0.01, "flops_per_s": 1e10,
 "layers": [{"module": "backbone", "layer": "block", "tp": 2, "parameter_bytes": 64,
   "points": [{"tokens": 128, "forward_ns": 10, "input_gradient_ns": 11, "weight_gradient_ns": 12},
              {"tokens": 256, "forward_ns": 20, "recompute_ns": 19, "activation_bytes": 512}]}],
 "collectives": [{"op": "all_gather", "points": [{"ranks": 2, "bytes": 8, "ns": 3}]}]})";
constexpr const char* kHistogram = R"({"format": "tributary.shape_histogram/1", "bins": [
 {"samples": 1, "tokens": 900, "images": [[1, 20, 20]], "clips": [500], "target_tokens": 4},
 {"samples": 1, "tokens": 2000, "videos": [[4, 10, 20]]}]})";
constexpr const char* kGraph = R"({"format": "tributary.module_graph/1", "name": "two",
 "modules": {"vision": {"layers": [{"kind": "block", "layers": 3, "width": 8, "heads": 2,
     "kv_heads": 2, "head_width": 4, "mlp_width": 16, "mlp_matrices": 2, "causal": false}]},
   "backbone": {"layers": [{"kind": "embedding", "width": 8, "vocab": 10},
     {"kind": "head", "width": 8, "vocab": 10, "tied": true}]}},
 "edges": [{"from": "vision", "to": "backbone"}]})";
constexpr const char* kTrace = R"({"format": "tributary.trace/1", "traceEvents": [
   {"ph": "X", "name": "forward", "cat": "compute", "pid": 0, "tid": 0, "ts": 1, "dur": 2.5,
    "args": {"critical": true}}],
 "summary": {"source": "simulation", "plan": "p", "cluster": "c", "steps": 2, "step_ns": 100,
   "samples": "s", "distribution_ns": {"mean": 100}, "ranks": 1, "idle_share": 0.5, "mfu": 0.3,
   "mfu_formula": "f", "utilisation": {"hfu": 0.4}, "critical_path_ns": {"compute": 60},
   "lanes": [{"name": "rank 0", "module": "backbone", "busy_ns": 60, "communication_ns": 5,
              "idle_ns": 35, "uses_ns": {"forward": 60}, "peak_bytes": 8,
              "peak_parts": {"state": 8}, "memory": [[0, 8]]}]}})";
constexpr const char* kSharing = R"({"devices": 2, "units": 2, "memory_bytes": 100,
 "interference": {"form": "published", "base": 1, "sum": 0.1, "pair": 0.1}, "method": "mosaic",
 "modules": [{"name": "a", "times_ns": [[8, 5], [6, 4]], "bandwidth": [0.4, 0.7],
              "memory_bytes": [5, 3]},
             {"name": "b", "times_ns": [[8, 5], [6, 4]], "bandwidth": [0.4, 0.7],
              "memory_bytes": [5, 3], "after": ["a"]}]})";
constexpr const char* kTogether = R"({"points": [
 {"alone_ns": 15, "together_ns": 17, "bandwidth": [0.3, 0.7]},
 {"alone_ns": 25, "together_ns": 30, "bandwidth": [0.5, 0.4]},
 {"alone_ns": 35, "together_ns": 36, "bandwidth": [0.1, 0.3]},
 {"alone_ns": 10, "together_ns": 12, "bandwidth": [0.4, 0.7]},
 {"alone_ns": 20, "together_ns": 27, "bandwidth": [0.6, 0.5]},
 {"alone_ns": 30, "together_ns": 33, "bandwidth": [0.2, 0.9]},
 {"alone_ns": 40, "together_ns": 41, "bandwidth": [0.1, 0.2]}], "form": "pairwise"})";
constexpr const char* kStep = R"({"step": 3, "microbatches": [[10, 20, 1, 4, 8, 1]]})";

void read_as(const std::string& text, auto read) { (void)read(Document{"a.json", false, text}); }

void read_steps(const std::string& text) {
  const fs::path run = fs::path(testing::TempDir()) / "run_of_artifact_readers";
  fs::create_directories(run);
  std::ofstream(run / "shapes.jsonl") << text << '\n';
  (void)simulate::read_recorded_steps(run.string(), 0);
}

void read_study(const std::string& text) {
  (void)config::parse_study(text, (kConfigs / "studies" / "a.yaml").string(), {});
}

std::vector<Artifact> artifacts() {
  using Text = const std::string&;
  std::vector<Artifact> all = {
      {"plan", document(kConfigs / "plans/demo_pipeline.json"),
       [](Text text) { read_as(text, read_plan); }},
      {"cluster", document(kConfigs / "clusters/h100_8.yaml"),
       [](Text text) { read_as(text, read_cluster); }},
      {"profile", parsed(kProfile), [](Text text) { read_as(text, read_profile); }},
      {"cost table", document(kConfigs / "studies/synthetic_8b.json"),
       [](Text text) { read_as(text, read_cost_table); }},
      {"module graph", parsed(kGraph), [](Text text) { read_as(text, read_model); }},
      {"model", document(kConfigs / "demo_model/config.json"),
       [](Text text) { read_as(text, read_model); }},
      {"model of sound", document(kConfigs / "models/qwen2_5_omni_7b/config.json"),
       [](Text text) { read_as(text, read_model); }},
      {"shape histogram", parsed(kHistogram),
       [](Text text) { read_as(text, [](const Document& it) { return read_sizes(it); }); }},
      {"trace", parsed(kTrace), [](Text text) { (void)config::parse_trace(text, "a.json"); }},
      {"sharing problem", parsed(kSharing),
       [](Text text) { (void)answer_staging(parse_json(text, "a.json"), "a.json"); }},
      {"co-locations", parsed(kTogether),
       [](Text text) { (void)answer_interference(parse_json(text, "a.json"), "a.json"); }},
      {"recorded step", parsed(kStep), read_steps}};
  for (const char* study : {"small.yaml", "loongforge_levels.yaml"})
    all.push_back({str("study ", study), document(kConfigs / "studies" / study), read_study});
  return all;
}

/// Every place in a document, including the whole document.
void list_places(const Json& json, const std::string& at, std::vector<Json::json_pointer>& places) {
  places.emplace_back(at);
  for (const auto& [key, value] : json.items())
    if (json.is_structured()) {
      std::string part = key;
      for (std::size_t i = 0; (i = part.find_first_of("~/", i)) != std::string::npos; i += 2)
        part.replace(i, 1, part[i] == '~' ? "~0" : "~1");
      list_places(value, at + "/" + part, places);
    }
}

/// Returns `read`, or the message of its Error. Other exceptions, and bugs, fail the test.
std::string outcome(const Artifact& artifact, const std::string& text) {
  try {
    artifact.read(text);
  } catch (const Error& error) {
    EXPECT_NE(error.fault(), Fault::kBug) << error.what();
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "no Error of ours: " << error.what();
  }
  return "read";
}

TEST(ArtifactReaders, TakeWhatTheyAreMeantFor) {
  for (const Artifact& artifact : artifacts())
    EXPECT_EQ(outcome(artifact, artifact.valid.dump()), "read") << artifact.name;
}

TEST(ArtifactReaders, ReadOrRefuseAValueOfAnyTypeInEveryPlace) {
  const Json values[] = {nullptr,       true,           -1,    0,          1.5,
                         1e300,         "text",         "",    Json{},     {1},
                         Json::array(), Json::object(), {{1}}, {{"a", 1}}, std::int64_t{1} << 62,
                         {"a", "b"},    {nullptr}};
  for (const Artifact& artifact : artifacts()) {
    std::vector<Json::json_pointer> places;
    list_places(artifact.valid, "", places);
    constexpr std::size_t kOfEach =
        5;  // values tried at a place; the next place continues with the following ones
    std::size_t next = 0;
    for (const Json::json_pointer& place : places)
      for (std::size_t i = 0; i < kOfEach; ++i) {
        const Json& value = values[next++ % std::size(values)];
        SCOPED_TRACE(str(artifact.name, " ", place.to_string(), ": ", value.dump()));
        Json changed = artifact.valid;
        changed[place] = value;
        (void)outcome(artifact, changed.dump());
        if (testing::Test::HasFailure()) return;
      }
  }
}

TEST(ArtifactReaders, RefuseNumbersThatAreNotFinite) {
  for (const Artifact& artifact : artifacts()) {
    const bool is_yaml = artifact.name == "cluster" || artifact.name.starts_with("study");
    std::vector<Json::json_pointer> places;
    list_places(artifact.valid, "", places);
    for (const Json::json_pointer& place : places) {
      if (!artifact.valid[place].is_number()) continue;
      for (const char* number : {"1e999", "-1e999", "NaN", ".inf", ".nan"}) {
        SCOPED_TRACE(str(artifact.name, " ", place.to_string(), ": ", number));
        if (!is_yaml && number[0] == '.') continue;
        Json changed = artifact.valid;
        changed[place] = "%";
        std::string text = changed.dump();
        text.replace(text.find("\"%\""), 3, number);
        EXPECT_NE(outcome(artifact, text), "read");
      }
    }
  }
}

}  // namespace
}  // namespace tributary::app
