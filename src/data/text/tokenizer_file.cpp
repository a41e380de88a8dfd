#include "data/text/tokenizer_file.h"

#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "core/json.h"
#include "data/text/byte_alphabet.h"

namespace tributary::data {
namespace {

/// The pattern of GPT-2; ByteLevel adds it when its `use_regex` is on.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr std::int64_t kMaxTokens = std::int64_t{1} << 22;

std::string shown(const Json& value) {
  return value.is_string() ? escaped(value.get_ref<const std::string&>())
                           : escaped(value.dump(-1, ' ', true));
}

/// One file while it is read: every check names the file and the key.
class Reader {
 public:
  explicit Reader(std::string_view where) : where_(where) {}

  TokenizerFile read(const Json& root) {
    require_kind(root.is_object(), "", root, "an object");
    const Json& model = object_at(root, "model");
    read_model_options(model);
    read_tokens(model);
    if (const Json* added = find(root, "added_tokens")) read_added(*added);
    check_ids();
    read_merges(model);
    if (const Json* normalizer = find(root, "normalizer")) {
      read_normalizer(*normalizer, "normalizer");
    }
    const Json* cut = find(root, "pre_tokenizer");
    TRIB_REQUIRE(cut != nullptr, .what = "data: tokenizer without a pre-tokenizer",
                 .where = at("pre_tokenizer"), .expected = "ByteLevel, or a Sequence that ends so");
    read_cut(*cut, "pre_tokenizer");
    TRIB_REQUIRE(ends_in_bytes_, .what = "data: tokenizer is not byte-level",
                 .where = at("pre_tokenizer"), .found = shown(cut->value("type", Json())),
                 .expected = "ByteLevel, or a Sequence that ends so");
    return std::move(file_);
  }

 private:
  [[nodiscard]] std::string at(std::string_view key) const {
    return key.empty() ? where_ : str(where_, ' ', key);
  }

  void require_kind(bool is_kind, std::string_view key, const Json& value,
                    std::string_view expected) const {
    TRIB_REQUIRE(is_kind, .what = "data: tokenizer value of the wrong kind", .where = at(key),
                 .found = shown(value), .expected = std::string(expected));
  }

  /// The member `key`; null when it is missing or null.
  static const Json* find(const Json& object, const char* key) {
    const auto member = object.find(key);
    return member == object.end() || member->is_null() ? nullptr : &*member;
  }

  const Json& object_at(const Json& object, const char* key) const {
    const Json* value = find(object, key);
    TRIB_REQUIRE(value != nullptr, .what = "data: tokenizer key is missing", .where = at(key));
    require_kind(value->is_object(), key, *value, "an object");
    return *value;
  }

  bool flag(const Json& object, const char* key, std::string_view path, bool absent) const {
    const Json* value = find(object, key);
    if (value == nullptr) return absent;
    require_kind(value->is_boolean(), str(path, '.', key), *value, "true or false");
    return value->get<bool>();
  }

  std::string text(const Json& object, const char* key, std::string_view path) const {
    const Json* value = find(object, key);
    TRIB_REQUIRE(value != nullptr, .what = "data: tokenizer key is missing",
                 .where = at(str(path, '.', key)));
    require_kind(value->is_string(), str(path, '.', key), *value, "a text");
    return value->get<std::string>();
  }

  std::int32_t id(const Json& value, std::string_view path) const {
    const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() < kMaxTokens;
    TRIB_REQUIRE(fits, .what = "data: token id out of range", .where = at(path),
                 .found = shown(value), .expected = str("0 to ", kMaxTokens - 1));
    return value.get<std::int32_t>();
  }

  [[noreturn]] void refuse(std::string_view what, std::string_view path, const Json& found,
                           std::string_view expected) const {
    TRIB_RAISE(Fault::kInput, .what = str("data: tokenizer asks for an unsupported ", what),
               .where = at(path), .found = shown(found), .expected = std::string(expected));
  }

  void read_model_options(const Json& model) {
    const Json type = model.value("type", Json());
    if (type != "BPE") refuse("model", "model.type", type, "BPE");
    for (const char* key :
         {"unk_token", "dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json* value = find(model, key);
      if (value != nullptr && *value != "" && *value != 0.0) {
        refuse("model option", str("model.", key), *value, "null");
      }
    }
    if (flag(model, "byte_fallback", "model", false)) {
      refuse("model option", "model.byte_fallback", true, "false");
    }
    file_.ignores_merges = flag(model, "ignore_merges", "model", false);
  }

  void place(std::int32_t id, const std::string& token, bool in_model, std::string_view path) {
    if (id >= std::ssize(file_.tokens)) {
      file_.tokens.resize(id + 1);
      file_.in_model.resize(id + 1);
      taken_.resize(id + 1);
    }
    TRIB_REQUIRE(
        !taken_[id], .what = "data: two tokens have one id", .where = at(path),
        .found = str("id ", id, " for ", escaped(token), " and for ", escaped(file_.tokens[id])),
        .expected = "an id of its own for each token");
    file_.tokens[id] = token;
    file_.in_model[id] = in_model;
    taken_[id] = true;
    ids_.emplace(token, id);
  }

  void read_tokens(const Json& model) {
    const Json& vocab = object_at(model, "vocab");
    for (const auto& [token, value] : vocab.items()) {
      place(id(value, str("model.vocab ", escaped(token))), token, true, "model.vocab");
    }
  }

  void read_added(const Json& added) {
    require_kind(added.is_array(), "added_tokens", added, "a list");
    std::unordered_set<std::string> seen;
    for (std::size_t i = 0; i < added.size(); ++i) {
      const std::string path = str("added_tokens[", i, "]");
      require_kind(added[i].is_object(), path, added[i], "an object");
      const AddedToken token = {
          .id = id(added[i].value("id", Json()), path + ".id"),
          .content = text(added[i], "content", path),
          .single_word = flag(added[i], "single_word", path, false),
          .strip_left = flag(added[i], "lstrip", path, false),
          .strip_right = flag(added[i], "rstrip", path, false),
          .normalized = flag(added[i], "normalized", path, true),
          .special = flag(added[i], "special", path, false),
      };
      TRIB_REQUIRE(!token.content.empty(), .what = "data: added token is empty",
                   .where = at(path + ".content"));
      TRIB_REQUIRE(seen.insert(token.content).second, .what = "data: added token stands twice",
                   .where = at(path), .found = escaped(token.content));
      const auto known = ids_.find(token.content);
      if (known == ids_.end()) {
        place(token.id, token.content, false, path);
      } else {
        TRIB_REQUIRE(known->second == token.id, .what = "data: added token has two ids",
                     .where = at(path),
                     .found = str(escaped(token.content), " as ", token.id, ", in model.vocab as ",
                                  known->second),
                     .expected = "the same id");
      }
      file_.added.push_back(token);
    }
  }

  void check_ids() const {
    TRIB_REQUIRE(!taken_.empty(), .what = "data: tokenizer has no tokens", .where = at("model"));
    for (std::size_t i = 0; i < taken_.size(); ++i) {
      TRIB_REQUIRE(taken_[i], .what = "data: token ids have a gap", .where = at("model.vocab"),
                   .found = str("no token with id ", i, ", the largest id is ", taken_.size() - 1),
                   .expected = "every id up to the largest");
    }
    for (int byte = 0; byte < 256; ++byte) {
      const std::string letter(letter_of_byte(static_cast<std::uint8_t>(byte)));
      const auto known = ids_.find(letter);
      TRIB_REQUIRE(known != ids_.end() && file_.in_model[known->second],
                   .what = "data: a byte has no token", .where = at("model.vocab"),
                   .found = str("no ", letter, " for byte ", byte),
                   .expected = "the whole byte-level alphabet");
    }
  }

  /// The halves of a merge rule: "a b" in older files, ["a", "b"] in newer ones.
  std::pair<std::string, std::string> halves(const Json& rule, const std::string& path) const {
    if (rule.is_string()) {
      const auto& joined = rule.get_ref<const std::string&>();
      const std::size_t space = joined.find(' ');
      const bool is_pair = space != std::string::npos && joined.find(' ', space + 1) == joined.npos;
      require_kind(is_pair, path, rule, "two tokens with one space between");
      return {joined.substr(0, space), joined.substr(space + 1)};
    }
    const bool is_pair =
        rule.is_array() && rule.size() == 2 && rule[0].is_string() && rule[1].is_string();
    require_kind(is_pair, path, rule, "two tokens");
    return {rule[0].get<std::string>(), rule[1].get<std::string>()};
  }

  void read_merges(const Json& model) {
    const Json* merges = find(model, "merges");
    TRIB_REQUIRE(merges != nullptr, .what = "data: tokenizer key is missing",
                 .where = at("model.merges"));
    require_kind(merges->is_array(), "model.merges", *merges, "a list");
    std::unordered_set<std::uint64_t> seen;
    for (std::size_t i = 0; i < merges->size(); ++i) {
      const std::string path = str("model.merges[", i, "]");
      const auto [left, right] = halves((*merges)[i], path);
      const auto known = [&](const std::string& token) {
        const auto place = ids_.find(token);
        TRIB_REQUIRE(place != ids_.end() && file_.in_model[place->second],
                     .what = "data: merge of an unknown token", .where = at(path),
                     .found = escaped(token), .expected = "a token of model.vocab");
        return place->second;
      };
      const MergeRule rule = {known(left), known(right), known(left + right)};
      const auto pair =
          static_cast<std::uint64_t>(rule.left) << 32 | static_cast<std::uint32_t>(rule.right);
      TRIB_REQUIRE(seen.insert(pair).second, .what = "data: merge stands twice", .where = at(path),
                   .found = str(escaped(left), " ", escaped(right)));
      file_.merges.push_back(rule);
    }
  }

  /// The steps of a Sequence, or the one step itself.
  std::vector<std::pair<std::string, const Json*>> steps(const Json& step, const char* list,
                                                         const std::string& path) const {
    require_kind(step.is_object(), path, step, "an object");
    if (step.value("type", Json()) != "Sequence") return {{path, &step}};
    const Json* members = find(step, list);
    const std::string members_path = str(path, '.', list);
    TRIB_REQUIRE(members != nullptr && members->is_array(),
                 .what = "data: tokenizer key is missing", .where = at(members_path),
                 .expected = "a list");
    std::vector<std::pair<std::string, const Json*>> found;
    for (std::size_t i = 0; i < members->size(); ++i) {
      found.emplace_back(str(members_path, '[', i, ']'), &(*members)[i]);
      require_kind((*members)[i].is_object(), found.back().first, (*members)[i], "an object");
    }
    return found;
  }

  void read_normalizer(const Json& normalizer, const std::string& path) {
    for (const auto& [step_path, step] : steps(normalizer, "normalizers", path)) {
      const Json type = step->value("type", Json());
      if (type != "NFC") refuse("normalizer", step_path + ".type", type, "NFC, or none");
      file_.composes = true;
    }
  }

  void read_cut(const Json& cut, const std::string& path) {
    for (const auto& [step_path, step] : steps(cut, "pretokenizers", path)) {
      const Json type = step->value("type", Json());
      if (ends_in_bytes_) refuse("step after ByteLevel", step_path, type, "ByteLevel to be last");
      if (type == "Split") {
        read_split(*step, step_path);
      } else if (type == "ByteLevel") {
        read_byte_level(*step, step_path);
      } else {
        refuse("pre-tokenizer", step_path + ".type", type, "Split or ByteLevel");
      }
    }
  }

  void read_split(const Json& step, const std::string& path) {
    const Json behavior = step.value("behavior", Json());
    if (behavior != "Isolated") {
      refuse("split behaviour", path + ".behavior", behavior, "Isolated");
    }
    if (flag(step, "invert", path, false)) refuse("split", path + ".invert", true, "false");
    const Json* pattern = find(step, "pattern");
    const bool is_pattern = pattern != nullptr && pattern->is_object();
    require_kind(is_pattern, path + ".pattern", step.value("pattern", Json()), "an object");
    const bool is_literal = pattern->contains("String");
    file_.splits.push_back(
        {text(*pattern, is_literal ? "String" : "Regex", path + ".pattern"), is_literal});
    TRIB_REQUIRE(!file_.splits.back().pattern.empty(), .what = "data: split pattern is empty",
                 .where = at(path + ".pattern"));
  }

  void read_byte_level(const Json& step, const std::string& path) {
    if (flag(step, "add_prefix_space", path, true)) {
      refuse("ByteLevel option", path + ".add_prefix_space", true, "false");
    }
    if (flag(step, "use_regex", path, true)) {
      file_.splits.push_back({std::string(kGpt2Pattern), /*is_literal=*/false});
    }
    ends_in_bytes_ = true;
  }

  std::string where_;
  TokenizerFile file_;
  std::vector<bool> taken_;  // by id
  std::unordered_map<std::string, std::int32_t> ids_;
  bool ends_in_bytes_ = false;
};

}  // namespace

TokenizerFile parse_tokenizer_file(std::string_view json, std::string_view where) {
  return check_tokenizer(parse_json(json, where, {.max_bytes = kMaxTokenizerBytes}), where);
}

TokenizerFile check_tokenizer(const Json& json, std::string_view where) {
  return Reader(where).read(json);
}

}  // namespace tributary::data
