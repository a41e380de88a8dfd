#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "config/family/all_families.h"
#include "config/model_config.h"
#include "core/error.h"

namespace tributary::config {
namespace {

std::string read_text_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  TRIB_REQUIRE(file.is_open(), .what = "config: file cannot be read", .where = path,
               .found = std::strerror(errno),
               .fix = "model.path must be a directory in Hugging Face layout, with config.json");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  TRIB_REQUIRE(!file.bad(), .what = "config: file cannot be read", .where = path,
               .found = std::strerror(errno));
  return text;
}

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

ModelConfig read_model_config(const std::string& directory) {
  const std::string path = directory + (directory.ends_with('/') ? "" : "/") + "config.json";
  const Json json = parse_json(read_text_file(path), path, {.most_bytes = std::size_t{1} << 20});
  const JsonObject config(json, path);
  return find_family(config).read(config);
}

}  // namespace tributary::config
