#pragma once

#include "config/family/model_config.h"
#include "config/reading/json_object.h"

namespace tributary::config {

/// What a field that is missing in the file takes: the defaults of the family's class.
struct DecoderDefaults {
  std::int64_t layers = 32;
  std::int64_t width = 4096;
  std::int64_t heads = 32;
  std::int64_t kv_heads = 32;
  std::int64_t mlp_width = 22016;
  std::int64_t vocab = 151936;
  std::int64_t max_positions = 32768;
  std::int64_t max_window_layers = 28;
  double rope_theta = 1e4;
  double norm_epsilon = 1e-6;
};

/// Reads the fields that all Qwen text decoders share. head_width, tied_head, qkv_bias, qk_norm and
/// mrope_section are the family's.
///
/// errors: Fault::kInput for what no class of these families does or what Tributary does not do:
///         another activation, dropout, a window in use, a scaled rope
/// source: docs/theory/numerics.md, "Defaults of missing fields"
[[nodiscard]] BackboneConfig read_decoder(const JsonObject& text, const DecoderDefaults& defaults);

/// Checks what must hold between the fields once the family has filled in the rest.
void check_decoder(const JsonObject& text, const BackboneConfig& backbone);

/// The rope dictionary: `rope_scaling` of older files, `rope_parameters` of newer ones.
[[nodiscard]] std::optional<JsonObject> rope_parameters(const JsonObject& text);

/// Refuses every activation but SiLU.
void require_silu(const JsonObject& object);

}  // namespace tributary::config
