#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/artifact/module_graph.h"
#include "config/artifact/profile.h"
#include "config/artifact/shape_histogram.h"
#include "core/error.h"
#include "tests/config/replaced.h"
#include "tests/core/input_error.h"

namespace tributary::config {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <class Read>
std::string message_of(Read read, const std::string& text, const std::string& from,
                       const std::string& to) {
  return input_error_of([&] { (void)read(replaced(text, from, to), "a.json"); }, "read");
}

const char* const kProfile = R"({"format": "tributary.profile/1", "model": "m", "device": "d",
 "adapter": "lora, rank 8", "launch_ns": 50, "noise": 0.01,
 "layers": [{"module": "backbone", "layer": "block", "tp": 2, "parameter_bytes": 64, "adapter_bytes": 16,
   "points": [{"tokens": 128, "forward_ns": 10, "input_gradient_ns": 11, "weight_gradient_ns": 12},
              {"tokens": 256, "forward_ns": 20, "recompute_ns": 19, "activation_bytes": 512}],
   "attention": [{"attended": 32.5, "tokens": 256, "forward_ns": 5, "gradient_ns": 9},
                 {"attended": 64, "tokens": 250, "forward_ns": 6}]}],
 "collectives": [{"op": "all_gather", "points": [{"ranks": 2, "bytes": 8, "ns": 3}]}]})";

TEST(Profile, ReadsAndReadsBackWhatItWrites) {
  const Profile profile = parse_profile(kProfile, "a.json");
  EXPECT_EQ(profile.layers[0].points[0].recompute, Nanoseconds{10});  // as the forward
  EXPECT_EQ(profile.layers[0].points[1].recompute, Nanoseconds{19});
  EXPECT_EQ(profile.adapter, "lora, rank 8");
  EXPECT_EQ(profile.layers[0].adapters, Bytes{16});
  EXPECT_EQ(profile.collectives[0].op, CollectiveOp::kAllGather);
  ASSERT_EQ(profile.layers[0].attention.size(), 2U);
  EXPECT_EQ(profile.layers[0].attention[0].attended, 32.5);
  EXPECT_EQ(profile.layers[0].attention[0].gradient, Nanoseconds{9});
  EXPECT_EQ(parse_profile(write_profile(profile), "written"), profile);
}

TEST(Profile, NamesTheKeyOfEveryFault) {
  const auto message = [](const std::string& from, const std::string& to) {
    return message_of(parse_profile, kProfile, from, to);
  };
  EXPECT_THAT(message("\"forward_ns\": 20", "\"forward_ns\": 0"),
              HasSubstr("layers.0.points.1.forward_ns"));
  EXPECT_THAT(message("\"tokens\": 256", "\"tokens\": 128"), HasSubstr("layers.0.points"));
  EXPECT_THAT(message("\"forward_ns\": 5", "\"forward_ns\": 0"),
              HasSubstr("layers.0.attention.0.forward_ns"));
  EXPECT_THAT(message("\"attended\": 64", "\"attended\": 32"),
              AllOf(HasSubstr("layers.0.attention"), HasSubstr("ascend by attended")));
  EXPECT_THAT(message("\"attended\": 64", "\"attended\": 0.5"),
              HasSubstr("layers.0.attention.1.attended"));
  EXPECT_THAT(message("\"tp\"", "\"pt\""), AllOf(HasSubstr("layers.0.\"pt\""), HasSubstr("tp")));
  EXPECT_THAT(message("all_gather", "gather"), HasSubstr("collectives.0.op"));
  EXPECT_THAT(message("\"noise\": 0.01", "\"noise\": -1"), HasSubstr("noise"));
  EXPECT_THAT(message("profile/1", "profile/9"), HasSubstr("not a profile of this version"));
  EXPECT_THAT(message("\"ranks\": 2", "\"ranks\": 1"), HasSubstr("collectives.0.points.0.ranks"));
}

const char* const kGraph = R"({"format": "tributary.module_graph/1", "name": "two",
 "modules": {"vision": {"layers": [{"kind": "block", "layers": 3, "width": 8, "heads": 2,
     "kv_heads": 2, "head_width": 4, "mlp_width": 16, "mlp_matrices": 2, "causal": false}]},
   "backbone": {"layers": [{"kind": "embedding", "width": 8, "vocab": 10},
     {"kind": "head", "width": 8, "vocab": 10, "tied": true}]}},
 "edges": [{"from": "vision", "to": "backbone"}]})";

TEST(ModuleGraph, ReadsAndReadsBackWhatItWrites) {
  const ModuleGraph graph = parse_module_graph(kGraph, "a.json");
  EXPECT_EQ(graph.find("vision")->layers[0].layers, 3);
  EXPECT_TRUE(graph.find("backbone")->layers[1].shape.tied);
  EXPECT_EQ(graph.find("nobody"), nullptr);
  EXPECT_EQ(parse_module_graph(write_module_graph(graph), "written"), graph);
}

TEST(ModuleGraph, NamesTheKeyOfEveryFault) {
  const auto message = [](const std::string& from, const std::string& to) {
    return message_of(parse_module_graph, kGraph, from, to);
  };
  EXPECT_THAT(message("\"heads\": 2", "\"heads\": 0"), HasSubstr("modules.vision.layers.0.heads"));
  EXPECT_THAT(message("\"heads\": 2", "\"heads\": 3"),
              AllOf(HasSubstr("modules.vision.layers.0.kv_heads; found: 2"),
                    HasSubstr("a number that divides the 3 heads")));
  EXPECT_THAT(message("\"to\": \"backbone\"", "\"to\": \"nobody\""),
              AllOf(HasSubstr("edges.0"), HasSubstr("nobody")));
  EXPECT_THAT(
      message("\"backbone\"}]", "\"backbone\"}, {\"from\": \"backbone\", \"to\": \"vision\"}]"),
      AllOf(HasSubstr("edges go in a circle"), HasSubstr("backbone -> vision -> backbone")));
  EXPECT_THAT(message("\"to\": \"backbone\"", "\"to\": \"vision\""), HasSubstr("vision -> vision"));
  EXPECT_THAT(message("\"kind\": \"head\"", "\"kind\": \"tail\""),
              HasSubstr("modules.backbone.layers.1.kind"));
  EXPECT_THAT(message("\"layers\": 3", "\"layers\": 10001"),
              AllOf(HasSubstr("modules.vision.layers.0.layers"), HasSubstr("1 to 10000")));
  EXPECT_THAT(message("module_graph/1", "module_graph/2"), HasSubstr("not a module graph"));
}

const char* const kWideGraph = R"({"format": "tributary.module_graph/1",
 "modules": {
   "audio": {"layers": [{"kind": "convolution", "width": 8, "input_width": 9, "uses": 4},
     {"kind": "convolution", "width": 6, "input_width": 24},
     {"kind": "block", "width": 6, "heads": 1, "kv_heads": 1, "head_width": 6, "mlp_width": 6}]},
   "pool": {"layers": [{"kind": "projector", "width": 16, "input_width": 3, "merge": 2},
     {"kind": "projector", "width": 16, "input_width": 6}]},
   "backbone": {"layers": [{"kind": "embedding", "width": 16, "vocab": 10},
     {"kind": "block", "layers": 2, "width": 16, "heads": 2, "kv_heads": 2, "head_width": 8,
      "mlp_width": 32},
     {"kind": "head", "width": 16, "vocab": 10}]}},
 "edges": [{"from": "audio", "to": "pool"}, {"from": "pool", "to": "backbone"}]})";

TEST(ModuleGraph, RefusesWidthsThatDoNotFollowEachOther) {
  EXPECT_EQ(parse_module_graph(kWideGraph, "a.json").modules.size(), 3u);
  const auto message = [](const std::string& from, const std::string& to) {
    return message_of(parse_module_graph, kWideGraph, from, to);
  };
  EXPECT_THAT(message("\"layers\": 2, \"width\": 16", "\"layers\": 2, \"width\": 8"),
              AllOf(HasSubstr("modules.backbone.layers.1.width; found: 8"),
                    HasSubstr("modules.backbone.layers.2.width; found: 16")));
  EXPECT_THAT(message("\"head\", \"width\": 16", "\"head\", \"width\": 32"),
              HasSubstr("modules.backbone.layers.2.width; found: 32"));
  EXPECT_THAT(message("\"input_width\": 24", "\"input_width\": 25"),
              HasSubstr("modules.audio.layers.1.input_width; found: 25"));
  EXPECT_THAT(message("\"input_width\": 6}", "\"input_width\": 7}"),
              HasSubstr("modules.pool.layers.1.input_width; found: 7"));
  EXPECT_THAT(message("\"input_width\": 3", "\"input_width\": 4"),
              AllOf(HasSubstr("edges.0; found: audio gives 6, pool takes 4"),
                    HasSubstr("modules.pool.layers.0.input_width")));
  EXPECT_THAT(message("\"width\": 16, \"input_width\": 6", "\"width\": 12, \"input_width\": 6"),
              HasSubstr("edges.1; found: pool gives 12, backbone takes 16"));
}

TEST(ModuleGraph, RefusesHalfOfALatent) {
  const auto message = [](const std::string& to) {
    return message_of(parse_module_graph, kWideGraph, "\"head_width\": 8",
                      "\"head_width\": 8, " + to);
  };
  EXPECT_EQ(message(R"("kv_rank": 4, "query_rank": 4, "rope_width": 2, "value_width": 4)"), "read");
  EXPECT_THAT(message(R"("query_rank": 4)"), HasSubstr("modules.backbone.layers.1.kv_rank"));
  EXPECT_THAT(message(R"("kv_rank": 4, "rope_width": 9)"),
              HasSubstr("modules.backbone.layers.1.rope_width"));
}

const char* const kHistogram = R"({"format": "tributary.shape_histogram/1", "source": "demo",
 "bins": [{"samples": 3, "tokens": 70, "target_tokens": 9, "images": [[1, 4, 6], [1, 2, 2]]},
          {"samples": 1, "tokens": 5}]})";

TEST(ShapeHistogram, ReadsAndReadsBackWhatItWrites) {
  const ShapeHistogram histogram = parse_shape_histogram(kHistogram, "a.json");
  EXPECT_EQ(histogram.samples(), 4);
  EXPECT_EQ(histogram.bins[0].shape.images[0], (Grid{1, 4, 6}));
  EXPECT_EQ(parse_shape_histogram(write_shape_histogram(histogram), "written"), histogram);
  ShapeHistogram heard = histogram;
  heard.bins[1].shape.sounds = {{1, 1, 1500}, {1, 1, 3000}};
  EXPECT_EQ(parse_shape_histogram(write_shape_histogram(heard), "written"), heard);
}

TEST(ShapeHistogram, IsNotWrittenLargerThanItIsRead) {
  ShapeHistogram histogram{.source = "not \xFF UTF-8", .bins = {ShapeBin{}}};
  histogram.bins[0].shape.tokens = {1};
  EXPECT_EQ(parse_shape_histogram(write_shape_histogram(histogram), "written").bins,
            histogram.bins);
  histogram.bins.resize(250'000, histogram.bins[0]);
  try {
    (void)write_shape_histogram(histogram);
    FAIL() << "written";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("config: shape histogram is too large"),
                                    HasSubstr("250000 shapes"), HasSubstr("--limit")));
  }
}

TEST(ShapeHistogram, NamesTheKeyOfEveryFault) {
  const auto message = [](const std::string& from, const std::string& to) {
    return message_of(parse_shape_histogram, kHistogram, from, to);
  };
  EXPECT_THAT(message("[1, 2, 2]", "[1, 0, 2]"), HasSubstr("bins.0.images"));
  EXPECT_THAT(message("[1, 2, 2]", "[1048576, 1048576, 1048576]"), HasSubstr("bins.0.images"));
  EXPECT_THAT(message("\"samples\": 1", "\"samples\": 0"), HasSubstr("bins.1.samples"));
  EXPECT_THAT(message("\"target_tokens\": 9", "\"target_tokens\": 71"),
              HasSubstr("bins.0.target_tokens"));
  EXPECT_THAT(message("\"bins\"", "\"bin\""), HasSubstr("did you mean bins?"));
}

}  // namespace
}  // namespace tributary::config
