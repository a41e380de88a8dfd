#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/family/all_families.h"
#include "config/family/model_config.h"
#include "core/error.h"
#include "core/file/given_file.h"

namespace tributary::config {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

const Family& find_family(const JsonObject& config) {
  const std::string model_type = config.text("model_type", "");
  const std::vector<Family>& families = all_families();
  const auto family = std::find_if(families.begin(), families.end(), [&](const Family& known) {
    return known.model_type == model_type;
  });
  std::string known;
  for (const Family& each : families) known += (known.empty() ? "" : ", ") + each.model_type;
  TRIB_REQUIRE(family != families.end(), .what = "config: model family is not known",
               .where = config.where("model_type"), .found = config.found("model_type"),
               .expected = str("one of ", known));
  return *family;
}

}  // namespace

ModelConfig parse_model_config(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where, {.most_bytes = kMostBytes});
  const JsonObject config(json, where);
  return find_family(config).read(config);
}

ModelConfig read_model_config(const std::string& directory) {
  const std::string path = directory + (directory.ends_with('/') ? "" : "/") + "config.json";
  return parse_model_config(
      read_given_file(
          path, kMostBytes,
          {.what = "config: file cannot be read",
           .fix = "give a model directory in Hugging Face layout, with config.json (model.path)"}),
      path);
}

}  // namespace tributary::config
