#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/family/model_config.h"
#include "config/reading/json_object.h"

namespace tributary::config {

// Fields that families of several vision towers read alike. All raise Fault::kInput naming file and
// key.

/// A size that some files give as a list, with one number for each side; they must be equal.
[[nodiscard]] std::int64_t read_side(const JsonObject& vision, const std::string& key,
                                     std::int64_t standard);

/// Refuses every activation but `expected`, which is also that of a file that names none.
void require_activation(const JsonObject& object, const std::string& key,
                        const std::string& expected);

/// A token id: newer files keep them at the top, some older ones in text_config.
[[nodiscard]] std::int64_t read_token(const JsonObject& config,
                                      const std::optional<JsonObject>& text, const std::string& key,
                                      std::int64_t standard, std::int64_t vocab);

/// The decoder in `text_config`, of any family of text models, Qwen2 where it names none. Its head
/// is tied as the top of the file says, or `tied` where that says nothing.
[[nodiscard]] BackboneConfig read_text_config(const JsonObject& config, bool tied);

/// Refuses other features than those of the last layer, another selection of them than `selection`,
/// and another activation of the projector than GELU.
void require_last_features(const JsonObject& config, const std::string& selection);

/// Checks the rules between fields of a tower of tiles.
void check_tile_tower(const JsonObject& vision, const VisionConfig& tower);

/// The object `vision_config`, which must be there.
[[nodiscard]] JsonObject vision_config_of(const JsonObject& config);

}  // namespace tributary::config
