#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "config/reading/ranges.h"
#include "config/run/mesh_shape.h"
#include "config/run/run_keys.h"
#include "config/run/run_tree.h"
#include "config/run/unknown_key.h"
#include "core/join.h"

namespace tributary::config {
namespace {

template <class Number>
std::optional<Number> parse_number(const YamlNode& node) {
  Number number{};
  const char* end = node.text.data() + node.text.size();
  const auto [stopped, failure] = std::from_chars(node.text.data(), end, number);
  if (failure != std::errc{} || stopped != end || node.quoted) return std::nullopt;
  return number;
}

bool is_within(double number, const KeyRange& range) {
  return std::isfinite(number) && (range.above ? number > range.min : number >= range.min) &&
         (range.below ? number < range.max : number <= range.max);
}

bool is_choice(const Key& key, const std::string& text) {
  if (key.choices.empty()) return true;
  std::string choice = text;
  if (key.takes_every) {
    const auto item = recompute_of_word(text);
    if (!item) return false;
    choice = word_of({item->module, item->level});
  }
  return std::find(key.choices.begin(), key.choices.end(), choice) != key.choices.end();
}

/// The value of a key; null when the key does not allow the value of the node.
std::optional<KeyValue> read_value(const Key& key, const YamlNode& node) {
  if (key.type == KeyType::kTexts) {
    if (node.kind != YamlNode::Kind::kList) return std::nullopt;
    std::vector<std::string> texts;
    for (const YamlNode& item : node.items) {
      if (item.kind != YamlNode::Kind::kScalar || !is_choice(key, item.text)) return std::nullopt;
      texts.push_back(item.text);
    }
    return texts;
  }
  if (node.kind != YamlNode::Kind::kScalar) return std::nullopt;
  switch (key.type) {
    case KeyType::kFlag:
      if (node.quoted || (node.text != "true" && node.text != "false")) return std::nullopt;
      return node.text == "true";
    case KeyType::kDegree:
      if (node.text == "auto") return node.text;  // quoted or not: it is a word
      [[fallthrough]];
    case KeyType::kWhole: {
      const auto whole = parse_number<std::int64_t>(node);
      if (!whole || !is_within(static_cast<double>(*whole), key.range)) return std::nullopt;
      return *whole;
    }
    case KeyType::kNumber: {
      const auto number = parse_number<double>(node);
      if (!number || !is_within(*number, key.range)) return std::nullopt;
      return *number;
    }
    case KeyType::kRanks:
      if (!node.text.empty() && !parse_ranks(node.text)) return std::nullopt;
      return node.text;
    default:
      if (!is_choice(key, node.text)) return std::nullopt;
      return node.text;
  }
}

/// The name of a key today; the configuration of a checkpoint may hold a former one.
std::string present_name(const std::string& path, const std::string& name) {
  return path + name == "stability.most_skips" ? "max_skips" : name;
}

/// Walks the tree along the table.
class Filler {
 public:
  Filler(RunConfig& config, Problems& problems) : config_(config), problems_(problems) {}

  /// `path` is the prefix as the table writes it, `shown` as the user does.
  void fill_map(const YamlNode& map, const std::string& path, const std::string& shown,
                std::size_t item) {
    for (const auto& [given, node] : map.entries) {
      const std::string name = present_name(path, given);
      const std::string key_path = path + name;
      if (const Key* key = find_key(key_path)) {
        fill_key(*key, node, shown + name, item);
      } else if (const KeyList* list = find_key_list(key_path)) {
        fill_list(*list, node, shown + name);
      } else if (names_below(key_path + ".").empty()) {
        refuse_unknown(path, shown, name, node);
      } else if (node.kind == YamlNode::Kind::kMap) {
        fill_map(node, key_path + ".", shown + name + ".", item);
      } else if (node.kind != YamlNode::Kind::kNothing) {
        const std::string first = names_below(key_path + ".").front();
        const Key* first_key = find_key(str(key_path, ".", first));
        problems_.add({.what = "config: section is not a map",
                       .where = str(node.where, " ", shown, name),
                       .found = describe_found(node),
                       .expected = str("keys below it: ", first, ", ..."),
                       .fix = first_key != nullptr && read_value(*first_key, node)
                                  ? str("write ", first, ": ", node.text, " below it, or ", shown,
                                        name, ".", first, "=", node.text, " on the command line")
                                  : ""});
      }
    }
  }

  void require_keys(const std::string& file) {
    for (const KeyList& list : all_key_lists()) {
      if (list.required && !places_.contains(list.path)) refuse_missing(list.path, file);
    }
    for (const Key& key : all_keys()) {
      if (!key.required) continue;
      const std::size_t bracket = key.path.find("[]");
      if (bracket == std::string::npos) {
        if (!places_.contains(key.path)) refuse_missing(key.path, file);
        continue;
      }
      const std::string list = key.path.substr(0, bracket);
      for (std::size_t item = 0; item < find_key_list(list)->size(config_); ++item) {
        const std::string shown = str(list, ".", item, key.path.substr(bracket + 2));
        if (!places_.contains(shown)) refuse_missing(shown, places_.at(str(list, ".", item)));
      }
    }
  }

  [[nodiscard]] KeyPlaces take_places() { return std::move(places_); }

 private:
  void fill_key(const Key& key, const YamlNode& node, const std::string& shown, std::size_t item) {
    places_[shown] = node.where;
    const std::optional<KeyValue> value = read_value(key, node);
    if (!value) {
      problems_.add({.what = "config: value cannot be used",
                     .where = str(node.where, " ", shown),
                     .found = describe_value(node),
                     .expected = describe_allowed(key),
                     .fix = key.type == KeyType::kTexts && node.kind == YamlNode::Kind::kScalar
                                ? str("write [", node.text, "]")
                                : ""});
    } else if (key.required && *value == KeyValue(std::string())) {
      problems_.add({.what = "config: value is empty",
                     .where = str(node.where, " ", shown),
                     .expected = "a text that is not empty"});
    } else {
      key.set(config_, item, *value);
    }
  }

  static std::string describe_value(const YamlNode& node) {
    if (node.kind != YamlNode::Kind::kList) return describe_found(node);
    return "[" + join(node.items, ", ", describe_found) + "]";
  }

  void fill_list(const KeyList& list, const YamlNode& node, const std::string& shown) {
    places_[shown] = node.where;
    if (node.kind != YamlNode::Kind::kList || (list.required && node.items.empty())) {
      problems_.add(
          {.what = "config: value cannot be used",
           .where = str(node.where, " ", shown),
           .found = describe_found(node),
           .expected = list.required ? "a list of maps with at least one item" : "a list of maps"});
      return;
    }
    list.resize(config_, node.items.size());
    for (std::size_t item = 0; item < node.items.size(); ++item) {
      const YamlNode& entry = node.items[item];
      const std::string shown_item = str(shown, ".", item);
      places_[shown_item] = str(entry.where, " ", shown_item);
      if (entry.kind == YamlNode::Kind::kMap) {
        fill_map(entry, list.path + "[].", shown_item + ".", item);
      } else {
        problems_.add({.what = "config: list item is not a map",
                       .where = str(entry.where, " ", shown_item),
                       .found = describe_found(entry),
                       .expected = str("keys: ", names_below(list.path + "[].").front(), ", ...")});
      }
    }
  }

  void refuse_unknown(const std::string& path, const std::string& shown, const std::string& name,
                      const YamlNode& node) {
    problems_.add({.what = "config: unknown key",
                   .where = str(node.where, " ", escaped(shown + name)),
                   .fix = advice_for_unknown_key(path, shown, name)});
  }

  void refuse_missing(const std::string& shown, const std::string& where) {
    problems_.add({.what = "config: required key is missing",
                   .where = where,
                   .expected = str(shown, ": ...")});
  }

  RunConfig& config_;
  Problems& problems_;
  KeyPlaces places_;
};

}  // namespace

KeyPlaces fill_run_config(const YamlNode& tree, const std::string& file, RunConfig& config,
                          Problems& problems) {
  if (tree.kind != YamlNode::Kind::kMap && tree.kind != YamlNode::Kind::kNothing) {
    problems.add({.what = "config: file is not a map of sections",
                  .where = tree.where,
                  .found = describe_found(tree),
                  .expected = "model:, data:, ..."});
    return {};
  }
  Filler filler(config, problems);
  filler.fill_map(tree, "", "", 0);
  filler.require_keys(file);
  KeyPlaces places = filler.take_places();
  // An `auto` of the user replaces the default one of dp_shard.
  const auto degrees = degrees_of(config.parallel);
  if (!places.contains("parallel.dp_shard") &&
      std::count_if(degrees.begin(), degrees.end(),
                    [](const auto& each) { return each.second.is_auto(); }) > 1)
    config.parallel.dp_shard = {1};
  // An interleaved order has at least two virtual stages.
  if (!places.contains("parallel.virtual_stages") &&
      config.parallel.schedule == PipelineOrder::kInterleaved)
    config.parallel.virtual_stages = 2;
  return places;
}

}  // namespace tributary::config
