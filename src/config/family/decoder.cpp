#include "config/family/decoder.h"

#include <algorithm>

#include "core/error.h"

namespace tributary::config {
namespace {

constexpr WholeRange kWidth{1, std::int64_t{1} << 20};
constexpr WholeRange kHeads{1, std::int64_t{1} << 14};
constexpr WholeRange kVocab{1, std::int64_t{1} << 26};
constexpr WholeRange kPositions{1, std::int64_t{1} << 31};

constexpr const char* kDynamic = "dynamic";

std::string rope_type_of(const JsonObject& rope) {
  return rope.has("rope_type") ? rope.text("rope_type", "") : rope.text("type", "default");
}

/// Whether the rope depends on the length of a sequence, beyond max_position_embeddings.
bool is_dynamic(const JsonObject& text) {
  const std::optional<JsonObject> rope = rope_parameters(text);
  return rope && rope_type_of(*rope) == kDynamic;
}

/// The scaling of Llama 3.1; null for positions as they are.
std::optional<RopeScaling> read_rope_scaling(const JsonObject& text) {
  const std::optional<JsonObject> rope = rope_parameters(text);
  if (!rope || rope_type_of(*rope) != "llama3") return std::nullopt;
  const RopeScaling scaling{
      .factor = rope->number("factor", 8, 1.0),
      .low_frequency = rope->number("low_freq_factor", 1, 0.0),
      .high_frequency = rope->number("high_freq_factor", 4, 0.0),
      .original_positions = rope->whole("original_max_position_embeddings", 8192, kPositions)};
  TRIB_REQUIRE(scaling.low_frequency < scaling.high_frequency,
               .what = "config: bands of the scaled rope do not ascend",
               .where = rope->where("high_freq_factor"), .found = str(scaling.high_frequency),
               .expected = str("above low_freq_factor ", scaling.low_frequency));
  return scaling;
}

double read_rope_theta(const JsonObject& text, double standard) {
  const std::optional<JsonObject> rope = rope_parameters(text);
  if (rope) {
    const std::string type = rope_type_of(*rope);
    TRIB_REQUIRE(type == "default" || type == "mrope" || type == "llama3" || type == kDynamic,
                 .what = "config: rope type is not supported", .where = rope->where("rope_type"),
                 .found = escaped(type), .expected = "default, mrope, llama3 or dynamic",
                 .fix = "use the model within its trained context, without rope scaling");
    const double part = rope->number("partial_rotary_factor", 1.0, 0.0);
    TRIB_REQUIRE(part == 1.0, .what = "config: partial rotary positions are not supported",
                 .where = rope->where("partial_rotary_factor"), .found = str(part),
                 .expected = "1");
    if (rope->has("rope_theta")) return rope->number("rope_theta", standard, 1.0);
  }
  return text.number("rope_theta", standard, 1.0);
}

/// Refuses sliding windows, which layers from max_window_layers on use when they are switched on.
void require_full_attention(const JsonObject& text, std::int64_t layers,
                            std::int64_t standard_window_layers) {
  const std::vector<std::string> types = text.texts("layer_types");
  const bool windowed =
      types.empty() ? text.has("use_sliding_window") && text.flag("use_sliding_window", false) &&
                          text.found("sliding_window") != "null" &&
                          text.whole_or_null("max_window_layers", standard_window_layers,
                                             {0, 10'000}) < layers
                    : std::any_of(types.begin(), types.end(),
                                  [](const std::string& type) { return type != "full_attention"; });
  TRIB_REQUIRE(!windowed, .what = "config: sliding-window attention is not supported",
               .where = text.where(types.empty() ? "use_sliding_window" : "layer_types"),
               .found = text.found(types.empty() ? "use_sliding_window" : "layer_types"),
               .expected = "full attention in every layer");
}

}  // namespace

std::int64_t even_head_width(const JsonObject& text, const BackboneConfig& backbone) {
  TRIB_REQUIRE(backbone.width % backbone.heads == 0,
               .what = "config: width does not divide over the heads",
               .where = text.where("hidden_size"),
               .found = str("width ", backbone.width, ", ", backbone.heads, " heads"),
               .expected = "hidden_size to be a multiple of num_attention_heads");
  return backbone.width / backbone.heads;
}

std::int64_t read_head_width(const JsonObject& text, const BackboneConfig& backbone) {
  if (!text.has("head_dim")) return even_head_width(text, backbone);
  return text.whole_or_null("head_dim", backbone.width / backbone.heads, {1, 1 << 14});
}

std::optional<JsonObject> rope_parameters(const JsonObject& text) {
  std::optional<JsonObject> rope = text.object("rope_scaling");
  return rope ? rope : text.object("rope_parameters");
}

void require_no_bias(const JsonObject& text) {
  TRIB_REQUIRE(!text.flag("attention_bias", false),
               .what = "config: attention bias is not supported in this family",
               .where = text.where("attention_bias"), .found = "true", .expected = "false");
}

void require_silu(const JsonObject& object) {
  const std::string activation = object.text("hidden_act", "silu");
  TRIB_REQUIRE(activation == "silu", .what = "config: activation is not supported",
               .where = object.where("hidden_act"), .found = escaped(activation),
               .expected = "silu");
}

BackboneConfig read_decoder(const JsonObject& text, const DecoderDefaults& defaults) {
  BackboneConfig backbone;
  backbone.layers = text.whole("num_hidden_layers", defaults.layers, kLayerRange);
  backbone.width = text.whole("hidden_size", defaults.width, kWidth);
  backbone.heads = text.whole("num_attention_heads", defaults.heads, kHeads);
  const bool null_kv_heads = text.found("num_key_value_heads") == "null";
  backbone.kv_heads = text.whole_or_null(
      "num_key_value_heads", null_kv_heads ? backbone.heads : defaults.kv_heads, kHeads);
  backbone.mlp_width = text.whole("intermediate_size", defaults.mlp_width, {1, kWidth.max * 4});
  backbone.vocab = text.whole("vocab_size", defaults.vocab, kVocab);
  backbone.max_positions =
      text.whole("max_position_embeddings", defaults.max_positions, kPositions);
  backbone.rope_theta = read_rope_theta(text, defaults.rope_theta);
  backbone.rope_scaling = read_rope_scaling(text);
  backbone.dynamic_rope = is_dynamic(text);
  backbone.norm_epsilon = text.number("rms_norm_eps", defaults.norm_epsilon, 0.0);
  backbone.initializer_range = text.number("initializer_range", 0.02, 0.0);
  require_silu(text);
  const double dropout = text.has("attention_dropout") ? text.number("attention_dropout", 0, 0) : 0;
  TRIB_REQUIRE(dropout == 0, .what = "config: attention dropout is not supported",
               .where = text.where("attention_dropout"), .found = str(dropout), .expected = "0");
  require_full_attention(text, backbone.layers, defaults.max_window_layers);
  return backbone;
}

void check_decoder(const JsonObject& text, const BackboneConfig& backbone) {
  TRIB_REQUIRE(backbone.heads % backbone.kv_heads == 0,
               .what = "config: heads do not divide over the kv heads",
               .where = text.where("num_key_value_heads"),
               .found = str(backbone.heads, " heads, ", backbone.kv_heads, " kv heads"),
               .expected = "num_attention_heads to be a multiple of num_key_value_heads");
  TRIB_REQUIRE(backbone.head_width % 2 == 0, .what = "config: head width is odd",
               .where = text.where("head_dim"), .found = str(backbone.head_width),
               .expected = "an even number: rotary positions turn pairs");
}

}  // namespace tributary::config
