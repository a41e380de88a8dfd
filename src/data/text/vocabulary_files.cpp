#include "data/text/vocabulary_files.h"

#include <nlohmann/json.hpp>

#include "config/family/tokenizer_files.h"
#include "core/error.h"
#include "core/file/given_file.h"
#include "core/json.h"
#include "core/split_text.h"

namespace tributary::data {
namespace {

constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::string read(const std::string& path) {
  const std::string text =
      read_given_file(path, kMaxTokenizerBytes, {.what = "data: cannot read the tokenizer"});
  TRIB_REQUIRE(text.size() <= kMaxTokenizerBytes, .what = "data: tokenizer file is too large",
               .where = path, .expected = str("at most ", kMaxTokenizerBytes, " bytes"));
  return text;
}

/// The rules "left right" of merges.txt, one a line, behind a line with the version.
Json list_merges(std::string_view text) {
  Json merges = Json::array();
  while (!text.empty()) {
    std::string_view line = take_until('\n', text);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool is_version = merges.empty() && line.starts_with("#version");
    if (!line.empty() && !is_version) merges.push_back(std::string(line));
  }
  return merges;
}

/// The tokens that `added_tokens_decoder` lists by id.
Json list_added(const Json& settings, const std::string& where) {
  const Json decoder = settings.value("added_tokens_decoder", Json());
  TRIB_REQUIRE(decoder.is_object() && !decoder.empty(), .what = "data: tokenizer key is missing",
               .where = str(where, " added_tokens_decoder"),
               .expected = "the added tokens by their ids");
  Json added = Json::array();
  for (const auto& [id, token] : decoder.items()) {
    const bool is_id =
        !id.empty() && id.size() < 9 && id.find_first_not_of("0123456789") == std::string::npos;
    TRIB_REQUIRE(is_id && token.is_object(), .what = "data: tokenizer value of the wrong kind",
                 .where = str(where, " added_tokens_decoder"), .found = escaped(id),
                 .expected = "an id, and its token as an object");
    added.push_back(token);
    added.back()["id"] = std::stoul(id);
  }
  return added;
}

}  // namespace

TokenizerFile read_tokenizer_of(const std::string& directory) {
  const std::vector<std::string> files = config::tokenizer_files(directory);
  TRIB_REQUIRE(!files.empty(), .what = "data: the model has no tokenizer", .where = directory,
               .expected = "tokenizer.json, or vocab.json, merges.txt and tokenizer_config.json");
  const std::string first = directory + "/" + files.front();
  if (files.size() == 1) return parse_tokenizer_file(read(first), first);
  const std::string where = directory + "/" + files.back();
  const Json settings = parse_json(read(where), where, {.max_bytes = kMaxTokenizerBytes});
  const Json kind = settings.is_object() ? settings.value("tokenizer_class", Json()) : Json();
  TRIB_REQUIRE(kind == "Qwen2Tokenizer" || kind == "Qwen2TokenizerFast",
               .what = "data: tokenizer without a tokenizer.json is not supported",
               .where = str(where, " tokenizer_class"), .found = kind.dump(),
               .expected = "Qwen2Tokenizer",
               .fix =
                   "save it by AutoTokenizer.from_pretrained(...).save_pretrained(...), which "
                   "writes tokenizer.json");
  const Json split{
      {"type", "Split"}, {"pattern", {{"Regex", kQwen2Pattern}}}, {"behavior", "Isolated"}};
  const Json bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const Json vocabulary = parse_json(read(first), first, {.max_bytes = kMaxTokenizerBytes});
  return check_tokenizer(
      {{"added_tokens", list_added(settings, where)},
       {"normalizer", {{"type", "NFC"}}},
       {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", Json::array({split, bytes})}}},
       {"model",
        {{"type", "BPE"},
         {"vocab", vocabulary},
         {"merges", list_merges(read(directory + "/" + files[1]))}}}},
      first);
}

}  // namespace tributary::data
