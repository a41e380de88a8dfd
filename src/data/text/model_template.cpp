#include "data/text/model_template.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/file/file_system.h"
#include "core/json.h"
#include "core/sha256.h"

namespace tributary::data {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{16} << 20;

/// SHA-256 of the templates that tests/data/chat_parity.py compares with ChatTemplate.
constexpr std::array<std::string_view, 5> kSameChats{
    "a0bc6f6fc7a29a80017a433e8f03a1cc1236e838a944a2d034295a60c4f2fddb",   // Qwen2.5-VL
    "b3e3fa7cdeceec1d3dfe0d17b77724baf3857714e688f3a700261567e96140eb",   // InternVL
    "f741044c80eb2fb78a62fe765fe9564e0170cf359becbac1298b5c1ce2e25b41",   // LLaVA-OneVision
    "27d3d4c4d9935c5a2237ecd3d27e042758937a380bc550f7c7b77a6d9416aeda",   // Qwen2-Audio
    "64b11a1b3c89f16953334177c781c0792b2e6302910e07c58223a2b57d1862cb"};  // train_tokenizer.py

/// The text of the member `chat_template`, or of the entry `default` when it is a list.
std::string template_in(const Json& config) {
  if (!config.is_object() || !config.contains("chat_template")) return "";
  const Json& value = config.at("chat_template");
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return "";
  for (const Json& each : value)
    if (each.is_object() && each.value("name", Json()) == "default" && each.contains("template") &&
        each.at("template").is_string())
      return each.at("template").get<std::string>();
  return "";
}

struct FoundTemplate {
  std::string file;
  std::string text;
};

FoundTemplate find_template(const std::string& directory) {
  FileSystem& files = real_file_system();
  const auto path = [&](const char* name) { return directory + "/" + name; };
  if (const char* name = "chat_template.jinja"; exists(files, path(name)))
    return {name, read_text_file(files, path(name), kMaxBytes)};
  for (const char* name : {"chat_template.json", "tokenizer_config.json"}) {
    if (!exists(files, path(name))) continue;
    const std::string text =
        template_in(parse_json(read_text_file(files, path(name), kMaxBytes), path(name)));
    if (!text.empty()) return {name, text};
  }
  return {};
}

}  // namespace

std::string describe_other_template(const std::string& model_directory) {
  FoundTemplate found = find_template(model_directory);
  found.text.resize(found.text.find_last_not_of(" \t\r\n") + 1);
  if (found.text.empty()) return "";
  const std::string digest = sha256(found.text);
  if (std::find(kSameChats.begin(), kSameChats.end(), digest) != kSameChats.end()) return "";
  return str("the chat_template of ", model_directory, "/", found.file,
             " is not run: chats are written as ChatML, without its tools, thinking or dates");
}

}  // namespace tributary::data
