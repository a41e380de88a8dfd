#include "data/text/model_template.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "config/family/all_families.h"
#include "core/file/file_system.h"
#include "core/json.h"
#include "core/sha256.h"

namespace tributary::data {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{16} << 20;

/// A template that tests/data/chat_parity.py compares with ChatTemplate.
struct KnownTemplate {
  std::string_view digest;              // SHA-256 of its text without white space at the end
  std::string_view name;                // of the models that have it
  std::string_view difference = "";     // from what is written; empty: none
  std::string_view system_prompt = "";  // empty: that of the family
};
constexpr KnownTemplate kKnownTemplates[] = {
    {"a0bc6f6fc7a29a80017a433e8f03a1cc1236e838a944a2d034295a60c4f2fddb", "Qwen2-VL and Qwen2.5-VL"},
    {"9d879ef91075acbfb2df7e441fd79d60bacfca989cf6d511d2af45c681e94f10", "Qwen3-VL"},
    {"d027e14db2e64eb2c23597240d42ea747b4fd5efd6e6a7604a990949c610f79c", "Qwen2.5-Omni"},
    {"27d3d4c4d9935c5a2237ecd3d27e042758937a380bc550f7c7b77a6d9416aeda", "Qwen2-Audio"},
    {"b3e3fa7cdeceec1d3dfe0d17b77724baf3857714e688f3a700261567e96140eb", "InternVL"},
    {"f741044c80eb2fb78a62fe765fe9564e0170cf359becbac1298b5c1ce2e25b41", "LLaVA-OneVision"},
    {"55b2f4a26ac9ee719330a61a0c39d9e538b0e9322212f048326318cff4f8674a", "Qwen2.5", "",
     "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."},
    {"a55ee1b1660128b7098723e0abcd92caa0788061051c62d51cbe87d9cf1974d8", "Qwen3",
     "no empty <think> block stands in the last answer"},
    {"64f85b198065d0fba2a81f37e10ed68161ce2c19a754c7100e67e0ca2ee9c326", "Qwen3-Instruct-2507"},
    {"ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122", "Llama 3"},
    {"93c0e9aa3629bbd77e68dbc0f5621f6e6b23aa8d74b932595cdb8d64684526d7", "Llama 3.1"},
    {"d82792f95932f1c9cef5c4bd992f171225e3bf8c7b609b4557c9e1ec96be819f", "Llama 3.2",
     "26 Jul 2024 stands in the place of today's date"},
    {"64b11a1b3c89f16953334177c781c0792b2e6302910e07c58223a2b57d1862cb", "train_tokenizer.py"},
};

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

/// Null for a template that is not known.
const KnownTemplate* find_known(const FoundTemplate& found) {
  const std::string digest =
      sha256(found.text.substr(0, found.text.find_last_not_of(" \t\r\n") + 1));
  const auto known = std::ranges::find(kKnownTemplates, digest, &KnownTemplate::digest);
  return known == std::end(kKnownTemplates) ? nullptr : known;
}

}  // namespace

std::string describe_other_template(const std::string& model_directory,
                                    config::ModelFamily family) {
  const FoundTemplate found = find_template(model_directory);
  if (found.text.find_first_not_of(" \t\r\n") == std::string::npos) return "";
  const std::string file = str("the chat_template of ", model_directory, "/", found.file);
  // The authors' code of InternVL has its chats; a template beside it is for other programs.
  const bool has_own_chats = family == config::ModelFamily::kInternVlChat;
  if (const KnownTemplate* known = has_own_chats ? nullptr : find_known(found)) {
    if (known->difference.empty()) return "";
    return str(file, " is that of ", known->name, ", and chats are written so, but ",
               known->difference);
  }
  return str(file, " is not run: chats are written as by the family `",
             config::entry_of(family).model_type, "`, without tools, thinking or dates");
}

std::string system_prompt_of(const std::string& model_directory, config::ModelFamily family,
                             const std::string& given) {
  if (given == config::kFamilyPrompt && family != config::ModelFamily::kInternVlChat)
    if (const KnownTemplate* known = find_known(find_template(model_directory));
        known != nullptr && !known->system_prompt.empty())
      return std::string(known->system_prompt);
  return config::system_prompt_of(family, given);
}

}  // namespace tributary::data
