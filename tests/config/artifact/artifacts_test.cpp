#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/module_graph.h"
#include "config/profile.h"
#include "config/shape_histogram.h"
#include "core/error.h"

namespace tributary::config {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <class Read>
std::string message_of(Read read, std::string text, const std::string& from,
                       const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  try {
    (void)read(text, "a.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kInput);
    return error.what();
  }
  return "read";
}

const char* const kProfile = R"({"format": "tributary.profile/1", "model": "m", "device": "d",
 "launch_ns": 50, "noise": 0.01,
 "layers": [{"module": "backbone", "layer": "block", "tp": 2, "parameter_bytes": 64,
   "points": [{"tokens": 128, "forward_ns": 10, "input_gradient_ns": 11, "weight_gradient_ns": 12},
              {"tokens": 256, "forward_ns": 20, "recompute_ns": 19, "activation_bytes": 512}]}],
 "collectives": [{"op": "all_gather", "points": [{"ranks": 2, "bytes": 8, "ns": 3}]}]})";

TEST(Profile, ReadsAndReadsBackWhatItWrites) {
  const Profile profile = parse_profile(kProfile, "a.json");
  EXPECT_EQ(profile.layers[0].points[0].recompute, Nanoseconds{10});  // as the forward
  EXPECT_EQ(profile.layers[0].points[1].recompute, Nanoseconds{19});
  EXPECT_EQ(profile.collectives[0].op, CollectiveOp::kAllGather);
  EXPECT_EQ(parse_profile(write_profile(profile), "written"), profile);
}

TEST(Profile, NamesTheKeyOfEveryFault) {
  const auto message = [](const std::string& from, const std::string& to) {
    return message_of(parse_profile, kProfile, from, to);
  };
  EXPECT_THAT(message("\"forward_ns\": 20", "\"forward_ns\": 0"),
              HasSubstr("layers.0.points.1.forward_ns"));
  EXPECT_THAT(message("\"tokens\": 256", "\"tokens\": 128"), HasSubstr("layers.0.points"));
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

const char* const kHistogram = R"({"format": "tributary.shape_histogram/1", "source": "demo",
 "bins": [{"samples": 3, "tokens": 70, "target_tokens": 9, "images": [[1, 4, 6], [1, 2, 2]]},
          {"samples": 1, "tokens": 5}]})";

TEST(ShapeHistogram, ReadsAndReadsBackWhatItWrites) {
  const ShapeHistogram histogram = parse_shape_histogram(kHistogram, "a.json");
  EXPECT_EQ(histogram.samples(), 4);
  EXPECT_EQ(histogram.bins[0].shape.images[0], (Grid{1, 4, 6}));
  EXPECT_EQ(parse_shape_histogram(write_shape_histogram(histogram), "written"), histogram);
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

TEST(GraphOfModel, ReadsTowerProjectorAndBackbone) {
  const ModuleGraph graph = parse_graph_of_model(
      R"({"model_type": "qwen2_5_vl", "hidden_size": 3584, "num_attention_heads": 28,
          "num_key_value_heads": 4, "intermediate_size": 18944, "num_hidden_layers": 28,
          "vocab_size": 152064, "vision_config": {"hidden_size": 1280, "depth": 32,
          "num_heads": 16, "intermediate_size": 3420, "fullatt_block_indexes": [7, 15, 23, 31]}})",
      "config.json");
  ASSERT_EQ(graph.modules.size(), 3u);
  EXPECT_EQ(graph.find("vision")->layers[1].layers, 28);
  EXPECT_EQ(graph.find("vision")->layers[1].shape.window, 64);
  EXPECT_EQ(graph.find("projector")->layers[0].shape.hidden_width, 5120);
  EXPECT_EQ(graph.find("backbone")->layers[1].shape.kv_heads, 4);
  EXPECT_EQ(graph.edges[1].to, "backbone");
  EXPECT_EQ(parse_module_graph(write_module_graph(graph), "written"), graph);
}

TEST(GraphOfModel, RefusesMoreLayersThanTheTrainerTakes) {
  EXPECT_THAT(
      [] {
        (void)parse_graph_of_model(
            R"({"model_type": "qwen2", "hidden_size": 64, "num_attention_heads": 4,
                "intermediate_size": 128, "num_hidden_layers": 10001, "vocab_size": 256})",
            "config.json");
      },
      testing::ThrowsMessage<Error>(AllOf(HasSubstr("config.json num_hidden_layers"),
                                          HasSubstr("10001"), HasSubstr("10000"))));
}

TEST(GraphOfModel, RefusesAFamilyThatIsNotListed) {
  EXPECT_THAT([] { (void)parse_graph_of_model(R"({"model_type": "mamba"})", "config.json"); },
              testing::ThrowsMessage<Error>(
                  AllOf(HasSubstr("config.json model_type"), HasSubstr("qwen2_5_vl"))));
}

}  // namespace
}  // namespace tributary::config
