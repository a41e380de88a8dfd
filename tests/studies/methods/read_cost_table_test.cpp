#include "studies/methods/read_cost_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"
#include "studies/dflop/search_3d.h"

namespace tributary::studies {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const Json& example() {
  static const Json json = Json::parse(R"({
    "format": "tributary.cost_table/1", "devices": 4, "memory_bytes": 8e10, "global_samples": 2,
    "encoder": {"layers": 2, "sample_flops": 1e12, "sample_shape": 14, "degrees": [
      {"tp": 1, "peak_flops_per_s": 1e14, "half_shape": 0.6, "state_bytes": 1e9,
       "activation_bytes": 1e6}]},
    "backbone": {"name": "llm", "layers": 4, "sample_flops": 1e13, "sample_shape": 3200,
      "degrees": [
      {"tp": 1, "throughput": [[100, 1e13], [1000, 1e14]], "state_bytes": 1e9,
       "activation_bytes": 1e3},
      {"tp": 2, "peak_flops_per_s": 1e14, "state_bytes": 5e8, "activation_bytes": 1e3}]},
    "batches": [[[28, 3200], [0, 1600]]]})");
  return json;
}

TEST(ReadCostTable, TakesWhatTheFileSays) {
  const TrainingProblem problem = parse_cost_table(example().dump(), "costs.json");
  EXPECT_EQ(problem.costs.devices, 4);
  EXPECT_EQ(problem.costs.encoder.name, "encoder");
  EXPECT_EQ(problem.costs.backbone.name, "llm");
  EXPECT_DOUBLE_EQ(problem.costs.encoder.sample_shape, 14);
  EXPECT_DOUBLE_EQ(problem.costs.backbone.sample_shape, 2400);
  EXPECT_DOUBLE_EQ(problem.costs.backbone.sample_flops, 7.5e12);
  EXPECT_DOUBLE_EQ(problem.costs.backbone.degrees.at(0).throughput.at(550), 5.5e13);
  EXPECT_DOUBLE_EQ(problem.costs.backbone.degrees.at(1).throughput.at(550), 1e14);
  EXPECT_DOUBLE_EQ(problem.costs.backbone.forward_share, 0.25);
  ASSERT_EQ(problem.batches.size(), 1);
  EXPECT_EQ(problem.batches[0][1].tokens, 1600);
  EXPECT_EQ(search_3d(problem.costs).certificate.status, plan::Status::kOptimal);
}

TEST(ReadCostTable, ReadsTheExampleOfTheDocuments) {
  const TrainingProblem problem =
      read_cost_table(TRIB_SOURCE_DIR "/configs/studies/synthetic_8b.json");
  EXPECT_EQ(problem.batches.size(), 2);
  EXPECT_EQ(problem.costs.encoder.degrees.size(), 4);
}

TEST(ReadCostTable, NamesEveryWrongKey) {
  const auto refuses = [](auto change, const char* words) {
    Json json = example();
    change(json);
    EXPECT_THAT([&] { (void)parse_cost_table(json.dump(), "costs.json"); },
                ThrowsMessage<Error>(HasSubstr(words)));
  };
  refuses([](Json& j) { j["format"] = "tributary.plan/1"; }, "costs.json format");
  refuses([](Json& j) { j.erase("devices"); }, "costs.json devices");
  refuses([](Json& j) { j["devces"] = 1; }, "devces");
  refuses([](Json& j) { j["memory_bytes"] = 0; }, "costs.json memory_bytes; found: 0");
  refuses([](Json& j) { j["memory_bytes"] = "many"; }, "memory_bytes; found: \"many\"");
  refuses([](Json& j) { j["forward_share"] = 1.5; }, "forward_share; found: 1.5");
  refuses([](Json& j) { j["encoder"]["layers"] = 0; }, "costs.json encoder.layers");
  refuses([](Json& j) { j["encoder"]["degrees"] = Json::array(); }, "encoder.degrees");
  refuses([](Json& j) { j["backbone"]["degrees"][1]["tp"] = 1; },
          "backbone.degrees.1.tp; found: 1; expected: degrees in ascending order");
  refuses(
      [](Json& j) {
        j["backbone"]["degrees"][0]["throughput"][1] = {1, 2};
      },
      "backbone.degrees.0.throughput");
  refuses([](Json& j) { j["backbone"]["degrees"][0]["throughput"] = 3; },
          "backbone.degrees.0.throughput");
  refuses([](Json& j) { j["backbone"]["degrees"][1].erase("peak_flops_per_s"); },
          "backbone.degrees.1.peak_flops_per_s");
  refuses([](Json& j) { j["backbone"]["degrees"][1]["half_shape"] = -1; }, "half_shape; found: -1");
  refuses([](Json& j) { j["batches"][0].erase(1); }, "batches of 2 samples [tiles, tokens]");
  refuses([](Json& j) { j["batches"] = {{"seed", 1}}; }, "batches.\"seed\"");
  EXPECT_THAT([] { (void)read_cost_table("/nowhere/costs.json"); },
              ThrowsMessage<Error>(HasSubstr("cannot be read; where: /nowhere/costs.json")));
}

}  // namespace
}  // namespace tributary::studies
