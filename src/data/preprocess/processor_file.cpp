#include "data/preprocess/processor_file.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/error.h"
#include "core/file/given_file.h"

namespace tributary::data {
namespace {

/// Null if there is no such file.
Json read_object(const std::string& path) {
  if (!std::filesystem::exists(path)) return {};
  Json json = read_given_json(path, {.what = "data: cannot read the processor's file"});
  TRIB_REQUIRE(json.is_object(), .what = "data: processor's file is no JSON object", .where = path,
               .found = json.type_name());
  return json;
}

/// Members of processor_config.json, the first of which counts.
std::vector<std::string> members_of(ProcessorPart part) {
  if (part == ProcessorPart::kPictures) return {"image_processor"};
  if (part == ProcessorPart::kClips) return {"video_processor"};
  return {"feature_extractor", "audio_processor"};
}

}  // namespace

ProcessorSettings find_processor_settings(const std::string& directory, ProcessorPart part) {
  const std::string common = directory + "/processor_config.json";
  const Json all = read_object(common);
  for (const std::string& member : members_of(part)) {
    if (!all.is_object() || !all.contains(member) || all.at(member).is_null()) continue;
    TRIB_REQUIRE(all.at(member).is_object(),
                 .what = "data: settings of a processor are no JSON object",
                 .where = str(common, " ", member), .found = all.at(member).type_name());
    return {.where = str(common, " ", member), .values = all.at(member)};
  }
  const std::string own =
      directory + (part == ProcessorPart::kClips ? "/video_preprocessor_config.json"
                                                 : "/preprocessor_config.json");
  return {.where = own, .values = read_object(own)};
}

std::string describe_missing_processor(const std::string& directory,
                                       const config::ModelConfig& model) {
  if (!model.vision ||
      !find_processor_settings(directory, ProcessorPart::kPictures).values.is_null())
    return "";
  return str(directory,
             " has no preprocessor_config.json and no processor_config.json with an "
             "`image_processor`: pictures get the colours and sizes of Qwen2-VL");
}

}  // namespace tributary::data
