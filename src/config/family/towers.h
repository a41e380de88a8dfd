#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/family/decoder.h"
#include "config/family/model_config.h"
#include "config/reading/json_object.h"

namespace tributary::config {

// Parts of a config.json that several families read alike. All raise Fault::kInput naming file and
// key.

/// The section `key`, which must be there.
[[nodiscard]] JsonObject section_of(const JsonObject& config, const std::string& key);

/// A size that some files give as a list, with one number for each side; they must be equal.
[[nodiscard]] std::int64_t read_side(const JsonObject& vision, const std::string& key,
                                     std::int64_t standard);

/// Refuses every activation but `expected`, which is also that of a file that names none.
void require_activation(const JsonObject& object, const std::string& key,
                        const std::string& expected);

/// A token id, under its first name that the file has. Newer files keep them at the top, some older
/// ones in text_config.
[[nodiscard]] std::int64_t read_token(const JsonObject& config,
                                      const std::optional<JsonObject>& text,
                                      const std::vector<std::string>& names, std::int64_t standard,
                                      std::int64_t vocab);

/// The decoder in the section `key`, of any family of text models, Qwen2 where it names none. Its
/// head is tied as that section says.
[[nodiscard]] BackboneConfig read_text_section(const JsonObject& config, const std::string& key);
/// The decoder in `text_config`, whose head is tied as the top of the file says, or `tied` where
/// that says nothing.
[[nodiscard]] BackboneConfig read_text_config(const JsonObject& config, bool tied);

/// Refuses other features than those of the last layer, another selection of them than `selection`,
/// and another activation of the projector than GELU.
void require_last_features(const JsonObject& config, const std::string& selection);

/// What a file of a tower of tiles that names nothing has.
struct TileTowerDefaults {
  std::int64_t layers;
  std::int64_t width;
  std::int64_t heads;
  std::int64_t mlp_width;
  std::int64_t patch;
  std::int64_t tile;
};
/// The fields that all towers of tiles have.
[[nodiscard]] VisionConfig read_tile_tower(const JsonObject& vision, VisionClass kind,
                                           std::int64_t merge, const TileTowerDefaults& defaults);

/// Checks the rules between fields of a tower of tiles.
void check_tile_tower(const JsonObject& vision, const VisionConfig& tower);

/// The vision tower of Qwen2.5-VL, with the defaults of its class, in front of a backbone.
[[nodiscard]] VisionConfig read_qwen2_5_tower(const JsonObject& vision,
                                              std::int64_t backbone_width);
/// The text model of Qwen2-VL, Qwen2.5-VL and Qwen2.5-Omni.
[[nodiscard]] BackboneConfig read_mrope_text(const JsonObject& text,
                                             const DecoderDefaults& defaults, bool tied_head);
/// The encoder of Whisper, with the defaults of Qwen2AudioEncoderConfig.
[[nodiscard]] AudioConfig read_whisper(const JsonObject& audio, std::int64_t output_width);

}  // namespace tributary::config
