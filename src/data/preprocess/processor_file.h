#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "config/family/model_config.h"
#include "core/json.h"

namespace tributary::data {

/// What a processor of transformers prepares.
enum class ProcessorPart { kPictures, kClips, kSounds };

/// Settings of one part of a model's processor.
struct ProcessorSettings {
  std::string where;  // file, and the member of it, for messages
  Json values;        // an object; null if no file has them
};

/// Finds settings first in the member of DIRECTORY/processor_config.json that transformers 5 writes
/// for the part, else in preprocessor_config.json, or in video_preprocessor_config.json for clips.
///
/// errors: Fault::kInput naming the file: no JSON, or no object
[[nodiscard]] ProcessorSettings find_processor_settings(const std::string& directory,
                                                        ProcessorPart part);

/// Warns that no file says how pictures are prepared, though the model sees; else empty.
///
/// errors: as find_processor_settings
[[nodiscard]] std::string describe_missing_processor(const std::string& directory,
                                                     const config::ModelConfig& model);

}  // namespace tributary::data
