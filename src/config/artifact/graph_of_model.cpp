#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "config/artifact/encoder_chains.h"
#include "config/artifact/module_graph.h"
#include "config/artifact/text_decoder.h"
#include "config/family/known_modules.h"
#include "config/family/model_config.h"
#include "config/reading/yaml_json.h"
#include "core/error.h"

namespace tributary::config {
namespace {

JsonObject section(const JsonObject& root, const std::string& key) {
  const std::optional<JsonObject> found = root.object(key);
  TRIB_REQUIRE(found.has_value(), .what = "config: value cannot be used", .where = root.where(key),
               .found = root.found(key), .expected = "an object {...}");
  return *found;
}

using Chains = std::vector<EncoderChain>;

/// A family by its model_type: where its config.json has each part, and which encoders it has.
struct Family {
  std::string_view name;
  std::string_view decoder = "";  // class of a decoder that does not name it; empty: `name`
  std::function<Chains(const JsonObject& root, std::int64_t backbone_width)> encoders = {};
  std::string_view root = "";  // section that holds what is trained; empty: the file
};

Family text_alone(std::string_view name) { return {.name = name}; }

Family qwen_vl(std::string_view name) {
  return {.name = name, .encoders = [name](const JsonObject& root, std::int64_t width) -> Chains {
            return {qwen_vision(section(root, "vision_config"), std::string(name), width)};
          }};
}

/// Patches are merged by a pixel shuffle, usually to half as many on each side.
Family intern_vl(std::string_view name, std::string_view tower) {
  return {.name = name,
          .decoder = "qwen2",
          .encoders = [tower](const JsonObject& root, std::int64_t width) -> Chains {
            const double ratio = root.number("downsample_ratio", 0.5, 0.0);
            TRIB_REQUIRE(ratio > 0.01 && ratio <= 1, .what = "config: value cannot be used",
                         .where = root.where("downsample_ratio"), .found = str(ratio),
                         .expected = "a fraction of a side, above 0.01, at most 1");
            const std::int64_t side = std::llround(std::floor(1 / ratio));
            return {plain_vision(section(root, "vision_config"), std::string(tower), width,
                                 side * side)};
          }};
}

Family plain_vl(std::string_view name, std::string_view decoder, std::string_view tower) {
  return {.name = name,
          .decoder = decoder,
          .encoders = [tower](const JsonObject& root, std::int64_t width) -> Chains {
            return {plain_vision(section(root, "vision_config"), std::string(tower), width, 1)};
          }};
}

/// The thinker of an Omni model, as a model of its own or in the section `root` of the whole model.
Family omni(std::string_view name, std::string_view decoder, std::string_view root) {
  const auto encoders = [family = std::string(decoder)](const JsonObject& thinker,
                                                        std::int64_t width) -> Chains {
    const JsonObject audio = section(thinker, "audio_config");
    return {family == "qwen2_5_omni" ? whisper_audio(audio, family, width)
                                     : convolved_audio(audio, width),
            qwen_vision(section(thinker, "vision_config"), family, width)};
  };
  return {.name = name, .decoder = decoder, .encoders = encoders, .root = root};
}

const std::vector<Family>& families() {
  static const std::vector<Family> list{
      text_alone("llama"),
      text_alone("qwen2"),
      text_alone("qwen3"),
      text_alone("qwen3_moe"),
      text_alone("deepseek_v2"),
      text_alone("deepseek_v3"),
      qwen_vl("qwen2_vl"),
      qwen_vl("qwen2_5_vl"),
      qwen_vl("qwen3_vl"),
      qwen_vl("qwen3_vl_moe"),
      plain_vl("llava_onevision", "qwen2", "siglip_vision_model"),
      plain_vl("janus", "llama", "janus_vision_model"),
      intern_vl("internvl", "internvl_vision"),
      intern_vl("internvl_chat", "intern_vit_6b"),
      {.name = "qwen2_audio",
       .decoder = "qwen2",
       .encoders = [](const JsonObject& root, std::int64_t width) -> Chains {
         return {whisper_audio(section(root, "audio_config"), "qwen2_audio", width)};
       }},
      omni("qwen2_5_omni", "qwen2_5_omni", "thinker_config"),
      omni("qwen2_5_omni_thinker", "qwen2_5_omni", ""),
      omni("qwen3_omni_moe", "qwen3_omni_moe", "thinker_config"),
      omni("qwen3_omni_moe_thinker", "qwen3_omni_moe", ""),
  };
  return list;
}

/// Vision towers without a text decoder; their patches are the tokens of a backbone without a head.
constexpr std::string_view kLoneTowers[]{"clip_vision_model", "siglip_vision_model"};

bool is_lone_tower(const std::string& family) {
  return std::find(std::begin(kLoneTowers), std::end(kLoneTowers), family) != std::end(kLoneTowers);
}

const Family& family_of(const JsonObject& root) {
  const std::string name = root.text("model_type", "");
  const Family* found = nullptr;
  std::string known;
  for (const Family& each : families()) {
    known += std::string(each.name) + ", ";
    if (name == each.name) found = &each;
  }
  for (const std::string_view tower : kLoneTowers)
    known += std::string(tower) + (tower == std::end(kLoneTowers)[-1] ? "" : ", ");
  TRIB_REQUIRE(found != nullptr, .what = "config: no costs for this model family",
               .where = root.where("model_type"), .found = root.found("model_type"),
               .expected = known);
  return *found;
}

/// Whether config.json ties the head, as the class in transformers reads it: those of InternVL and
/// Qwen3-VL look only at the top of the file.
bool ties_head(const Family& family, const JsonObject& root, const JsonObject& text) {
  const std::string key = "tie_word_embeddings";
  if (family.name == "internvl") return root.flag(key, true);
  return root.flag(key, false) || (family.name != "qwen3_vl" && text.flag(key, false));
}

/// Reads the text decoder from the section text_config or llm_config, which may name its class, or
/// from the root itself.
ModuleNode backbone_of(const Family& family, const JsonObject& root) {
  const std::string standard(family.decoder.empty() ? family.name : family.decoder);
  std::optional<JsonObject> text = root.object("text_config");
  if (!text) text = root.object("llm_config");
  if (!text) return backbone_of(root, standard, ties_head(family, root, root));
  return backbone_of(*text, text->text("model_type", standard), ties_head(family, root, *text));
}

/// Adds the modules of a chain, and the edges from each to the next and to the backbone.
void add_chain(ModuleGraph& graph, const EncoderChain& chain) {
  for (std::size_t i = 0; i < chain.size(); ++i) {
    graph.edges.push_back(
        {chain[i].name, i + 1 < chain.size() ? chain[i + 1].name : std::string(kBackboneModule)});
    graph.modules.push_back(chain[i]);
  }
}

}  // namespace

ModuleGraph parse_graph_of_model(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where);
  const JsonObject file(json, where);
  ModuleGraph graph{.name = file.text("model_type", "")};
  if (is_lone_tower(graph.name)) {
    graph.modules.push_back(patch_tower(file, graph.name, std::string(kBackboneModule)));
    return graph;
  }
  const Family& family = family_of(file);
  const JsonObject root = family.root.empty() ? file : section(file, std::string(family.root));
  const ModuleNode backbone = backbone_of(family, root);
  if (family.encoders)
    for (const EncoderChain& chain : family.encoders(root, backbone.layers.front().shape.width))
      add_chain(graph, chain);
  graph.modules.push_back(backbone);
  std::sort(graph.modules.begin(), graph.modules.end(),
            [](const ModuleNode& a, const ModuleNode& b) { return a.name < b.name; });
  return graph;
}

ModuleGraph read_graph_of_model(const std::string& directory) {
  const std::string path = directory + "/config.json";
  ModuleGraph graph = parse_graph_of_model(read_artifact(path, "a Hugging Face config.json"), path);
  for (ModuleNode& module : graph.modules)
    for (LayerRun& run : module.layers)
      if (run.shape.tied) run.shape.tied = !holds_other_head(directory);
  return graph;
}

}  // namespace tributary::config
