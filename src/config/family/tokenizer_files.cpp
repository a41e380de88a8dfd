#include "config/family/tokenizer_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file/given_file.h"

namespace tributary::config {
namespace {

const std::string kWhole = "tokenizer.json";
const std::string kSettings = "tokenizer_config.json";

bool is_there(const std::string& directory, const std::string& file) {
  std::error_code failure;
  return std::filesystem::exists(std::filesystem::path(directory) / file, failure);
}

Json read_file(const std::string& directory, const std::string& file) {
  if (!is_there(directory, file)) return Json::object();
  const std::string path = (std::filesystem::path(directory) / file).string();
  Json read = read_given_json(path, {.what = "config: cannot read a file of the tokenizer"});
  TRIB_REQUIRE(read.is_object(), .what = "config: a file of the tokenizer is no JSON object",
               .where = path, .found = read.type_name(), .expected = "an object");
  return read;
}

bool names(const Json& entry, std::string_view token) {
  return entry.is_object() && entry.value("content", Json()) == token;
}

}  // namespace

std::vector<std::string> tokenizer_files(const std::string& directory) {
  if (is_there(directory, kWhole)) return {kWhole};
  std::vector<std::string> parts{"vocab.json", "merges.txt", kSettings};
  const bool all = std::ranges::all_of(
      parts, [&](const std::string& file) { return is_there(directory, file); });
  return all ? parts : std::vector<std::string>{};
}

std::optional<std::int64_t> find_added_token(const std::string& directory, std::string_view token) {
  const Json decoder = read_file(directory, kSettings).value("added_tokens_decoder", Json());
  for (const auto& [id, entry] : decoder.items()) {
    std::int64_t number = 0;
    const char* end = id.data() + id.size();
    if (names(entry, token) && std::from_chars(id.data(), end, number).ptr == end) return number;
  }
  const Json added = read_file(directory, kWhole).value("added_tokens", Json());
  for (const Json& entry : added)
    if (names(entry, token) && entry.value("id", Json()).is_number_unsigned())
      return entry.at("id").get<std::int64_t>();
  return std::nullopt;
}

}  // namespace tributary::config
