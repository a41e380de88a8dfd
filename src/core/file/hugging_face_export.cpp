#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file/new_directory.h"
#include "core/file/weight_directory.h"
#include "core/json.h"

namespace tributary {
namespace {

/// Files that transformers reads beside the weights; copied if the source has them.
constexpr std::array<const char*, 14> kCompanions{"config.json",
                                                  "generation_config.json",
                                                  "tokenizer.json",
                                                  "tokenizer_config.json",
                                                  "special_tokens_map.json",
                                                  "added_tokens.json",
                                                  "vocab.json",
                                                  "merges.txt",
                                                  "chat_template.json",
                                                  "chat_template.jinja",
                                                  "preprocessor_config.json",
                                                  "processor_config.json",
                                                  "video_preprocessor_config.json",
                                                  "spk_dict.pt"};

constexpr std::uint64_t kMaxCompanionBytes = std::uint64_t{256} << 20;

/// Splits tensors, ordered by name, into shards of at most `max_bytes`, or one larger tensor.
std::vector<std::vector<TensorSpec>> split_into_shards(std::vector<TensorSpec> tensors,
                                                       std::uint64_t max_bytes) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorSpec& a, const TensorSpec& b) { return a.name < b.name; });
  std::vector<std::vector<TensorSpec>> shards(1);
  std::uint64_t bytes = 0;
  for (TensorSpec& tensor : tensors) {
    if (!shards.back().empty() && bytes + tensor.bytes() > max_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += tensor.bytes();
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

std::string shard_name(std::size_t shard, std::size_t shards) {
  if (shards == 1) return "model.safetensors";
  std::array<char, 64> name{};
  (void)std::snprintf(name.data(), name.size(), "model-%05zu-of-%05zu.safetensors", shard + 1,
                      shards);
  return name.data();
}

/// The whole model around a part: its tensors by their names there, and those of the other parts.
HuggingFaceExport add_other_parts(const HuggingFaceExport& part, const WeightDirectory& source) {
  HuggingFaceExport whole = part;
  for (TensorSpec& tensor : whole.tensors) tensor.name = part.prefix + tensor.name;
  for (const auto& [name, place] : source.tensors())
    if (!name.starts_with(part.prefix)) whole.tensors.push_back(*place.tensor);
  whole.give = [&part, &source](const TensorSpec& tensor, const auto& append) {
    if (!tensor.name.starts_with(part.prefix))
      return append(source.tensors().at(tensor.name).bytes());
    TensorSpec own = tensor;
    own.name = tensor.name.substr(part.prefix.size());
    part.give(own, append);
  };
  return whole;
}

void write_weights(FileSystem& files, const HuggingFaceExport& content, const std::string& target) {
  const auto shards = split_into_shards(content.tensors, content.max_shard_bytes);
  nlohmann::json weight_map = nlohmann::json::object();
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(i, shards.size());
    SafetensorsWriter writer(files, target + "/" + name, shards[i], {{"format", "pt"}});
    for (const StoredTensor& tensor : writer.tensors()) {
      content.give(tensor, [&](std::span<const std::byte> bytes) { writer.append(bytes); });
      weight_map[tensor.name] = name;
      total += tensor.bytes();
    }
    (void)writer.finish();
  }
  if (shards.size() == 1) return;
  const nlohmann::json index{{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
  write_text_file(files, target + "/model.safetensors.index.json", index.dump(2) + "\n");
}

/// The name in transformers of the type that all tensors have; empty when they differ.
std::string transformers_type(const std::vector<TensorSpec>& tensors) {
  const bool alike = std::all_of(tensors.begin(), tensors.end(), [&](const TensorSpec& tensor) {
    return tensor.dtype == tensors.front().dtype;
  });
  if (tensors.empty() || !alike) return "";
  switch (tensors.front().dtype) {
    case StoredDtype::kFloat32:
      return "float32";
    case StoredDtype::kBfloat16:
      return "bfloat16";
    case StoredDtype::kFloat16:
      return "float16";
    default:
      return "";
  }
}

/// Sets a key to a value in all objects that have it.
void set_where_given(nlohmann::json& config, const char* key, const nlohmann::json& value) {
  if (config.is_object() && config.contains(key)) config[key] = value;
  for (nlohmann::json& part : config)
    if (part.is_structured()) set_where_given(part, key, value);
}

/// Sets every type in config.json to that of the weights: transformers rounds the weights to it,
/// and they may have been trained in a finer type than the source's. Says that no head is tied
/// where the weights have one: some readers would tie it, though transformers does not.
std::string fit_config(const std::string& text, const std::string& where,
                       const HuggingFaceExport& content) {
  nlohmann::json config = parse_json(text, where);
  if (!config.is_object()) return text;
  const nlohmann::json before = config;
  const std::string type = transformers_type(content.tensors);
  for (const char* key : {"dtype", "torch_dtype"})
    if (!type.empty()) set_where_given(config, key, type);
  const bool has_head = std::ranges::any_of(content.tensors, [](const TensorSpec& tensor) {
    return tensor.name.ends_with("lm_head.weight");
  });
  constexpr const char* kTies = "tie_word_embeddings";
  if (has_head && content.prefix.empty()) {
    set_where_given(config, kTies, false);
    config[kTies] = false;  // a file without the key may tie it by default
  }
  return config == before ? text : config.dump(2) + "\n";
}

void copy_companions(FileSystem& files, const HuggingFaceExport& content,
                     const std::string& target) {
  for (const char* name : kCompanions) {
    const std::string from = content.source_directory + "/" + name;
    if (!exists(files, from)) continue;
    std::string text = read_text_file(files, from, kMaxCompanionBytes);
    if (std::string_view(name) == "config.json") text = fit_config(text, from, content);
    write_text_file(files, target + "/" + name, text);
  }
}

/// Copies the Python code that transformers runs for a model whose class it does not have: where
/// config.json has `auto_map`, all of it that lies beside the weights.
void copy_code(FileSystem& files, const HuggingFaceExport& content, const std::string& target) {
  const std::string from = content.source_directory + "/config.json";
  const nlohmann::json config = parse_json(read_text_file(files, from, kMaxCompanionBytes), from);
  if (!config.is_object() || !config.contains("auto_map")) return;
  for (const std::string& name : list_directory(files, content.source_directory))
    if (name.ends_with(".py"))
      write_text_file(
          files, target + "/" + name,
          read_text_file(files, content.source_directory + "/" + name, kMaxCompanionBytes));
}

/// Writes the template of tokenizer_config.json as a file of its own: a processor of transformers
/// reads no template from tokenizer_config.json, but processor and tokenizer both read this file.
void write_chat_template(FileSystem& files, const HuggingFaceExport& content,
                         const std::string& target) {
  const auto given = [&](const char* name) {
    return exists(files, content.source_directory + "/" + name);
  };
  const bool has_processor = given("preprocessor_config.json") || given("processor_config.json");
  if (!has_processor || !given("tokenizer_config.json") || given("chat_template.json") ||
      given("chat_template.jinja"))
    return;
  const std::string from = content.source_directory + "/tokenizer_config.json";
  const nlohmann::json config = parse_json(read_text_file(files, from, kMaxCompanionBytes), from);
  const auto found = config.is_object() ? config.find("chat_template") : config.end();
  if (found != config.end() && found->is_string())
    write_text_file(files, target + "/chat_template.jinja", found->get<std::string>());
}

}  // namespace

void write_hugging_face_directory(FileSystem& files, const HuggingFaceExport& content) {
  TRIB_REQUIRE(exists(files, content.source_directory + "/config.json"),
               .what = "export: the model directory has no config.json",
               .where = content.source_directory);
  write_new_directory(files, content.directory, [&](const std::string& part) {
    if (content.prefix.empty())
      write_weights(files, content, part);
    else
      write_weights(files, add_other_parts(content, WeightDirectory(content.source_directory)),
                    part);
    copy_companions(files, content, part);
    copy_code(files, content, part);
    write_chat_template(files, content, part);
  });
}

}  // namespace tributary
