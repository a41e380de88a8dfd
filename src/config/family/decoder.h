#pragma once

#include "config/family/model_config.h"
#include "config/reading/json_object.h"

namespace tributary::config {

/// The values of fields that the file lacks: the defaults of the family's class.
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

/// Reads the fields that all text decoders share. The family fills in head_width, tied_head,
/// qkv_bias, qk_norm and mrope_section.
///
/// errors: Fault::kInput for a value that these families or Tributary do not support: another
///         activation, dropout, a window in use, another scaled rope than that of Llama 3.1 and the
///         dynamic one
/// source: docs/theory/numerics.md, "Defaults of missing fields"
[[nodiscard]] BackboneConfig read_decoder(const JsonObject& text, const DecoderDefaults& defaults);

/// Checks the rules between fields, after the family has filled in its own.
void check_decoder(const JsonObject& text, const BackboneConfig& backbone);

/// The width of a head where heads share the hidden states evenly.
/// errors: Fault::kInput where they do not divide it
[[nodiscard]] std::int64_t even_head_width(const JsonObject& text, const BackboneConfig& backbone);
/// `head_dim`, or the even width where the file lacks it.
[[nodiscard]] std::int64_t read_head_width(const JsonObject& text, const BackboneConfig& backbone);

/// The rope dictionary: older files call it `rope_scaling`, newer ones `rope_parameters`.
[[nodiscard]] std::optional<JsonObject> rope_parameters(const JsonObject& text);

/// Refuses a bias on query, key, value and output.
void require_no_bias(const JsonObject& text);

/// Refuses every activation but SiLU.
void require_silu(const JsonObject& object);

}  // namespace tributary::config
