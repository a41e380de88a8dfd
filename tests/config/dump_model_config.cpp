// Prints what read_model_config reads from each directory, one JSON object a line, for the live
// comparison with transformers.
#include <iostream>
#include <nlohmann/json.hpp>

#include "config/family/all_families.h"
#include "core/error.h"
#include "core/json.h"

namespace tributary::config {
namespace {

Json to_json(const BackboneConfig& b) {
  return {{"layers", b.layers},
          {"width", b.width},
          {"heads", b.heads},
          {"kv_heads", b.kv_heads},
          {"head_width", b.head_width},
          {"mlp_width", b.mlp_width},
          {"vocab", b.vocab},
          {"max_positions", b.max_positions},
          {"rope_theta", b.rope_theta},
          {"norm_epsilon", b.norm_epsilon},
          {"qkv_bias", b.qkv_bias},
          {"qk_norm", b.qk_norm},
          {"tied_head", b.tied_head},
          {"mrope_section", b.mrope_section},
          {"mrope_interleaved", b.mrope_interleaved},
          {"rope_factor", b.rope_scaling ? b.rope_scaling->factor : 1.0},
          {"initializer_range", b.initializer_range}};
}

Json to_json(const VisionConfig& v) {
  return {{"layers", v.layers},
          {"width", v.width},
          {"heads", v.heads},
          {"mlp_width", v.mlp_width},
          {"output_width", v.output_width},
          {"channels", v.channels},
          {"patch", v.patch},
          {"temporal_patch", v.temporal_patch},
          {"merge", v.merge},
          {"window", v.window},
          {"full_attention_layers", v.full_attention_layers},
          {"deepstack_layers", v.deepstack_layers},
          {"positions_side", v.positions_side},
          {"tokens_per_second", v.tokens_per_second},
          {"initializer_range", v.initializer_range}};
}

Json to_json(const AudioConfig& a) {
  return {{"layers", a.layers},
          {"width", a.width},
          {"heads", a.heads},
          {"mlp_width", a.mlp_width},
          {"output_width", a.output_width},
          {"mel_bins", a.mel_bins},
          {"positions", a.positions},
          {"chunk", a.chunk},
          {"initializer_range", a.initializer_range}};
}

Json dump(const std::string& directory) {
  const ModelConfig model = read_model_config(directory);
  Json json{{"backbone", to_json(model.backbone)},
            {"parameters", count_parameters(model)},
            {"tokens",
             {model.tokens.image_pad, model.tokens.video_pad, model.tokens.vision_start,
              model.tokens.vision_end, model.tokens.audio_pad}}};
  for (const Family& family : all_families())
    if (family.family == model.family) json["model_type"] = family.model_type;
  if (model.vision) json["vision"] = to_json(*model.vision);
  if (model.audio) json["audio"] = to_json(*model.audio);
  return json;
}

}  // namespace
}  // namespace tributary::config

int main(int argc, char** argv) {
  try {
    for (int i = 1; i < argc; ++i) std::cout << tributary::config::dump(argv[i]).dump() << "\n";
  } catch (const tributary::Error& error) {
    std::cerr << error.what() << "\n";
    return static_cast<int>(error.exit_code());
  }
}
