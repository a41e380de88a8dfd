#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "config/run/run_keys.h"
#include "core/error.h"
#include "core/join.h"

namespace tributary::config {
namespace {

std::string shortest(double value) {
  std::array<char, 40> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

/// Whether YAML reads the bare word as that text; other words must be quoted.
bool is_bare_word(std::string_view text) {
  constexpr std::string_view kMarks = "_-./";
  constexpr std::array<std::string_view, 13> kTaken{"true",  "false", "null", "Null", "NULL",
                                                    "yes",   "no",    "on",   "off",  "True",
                                                    "False", "TRUE",  "FALSE"};
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_plain = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || kMarks.find(c) != std::string_view::npos;
  };
  return !text.empty() && is_letter(text.front()) &&
         std::all_of(text.begin(), text.end(), is_plain) &&
         std::find(kTaken.begin(), kTaken.end(), text) == kTaken.end();
}

std::string write_text(std::string_view text) {
  if (is_bare_word(text)) return std::string(text);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char byte : text) {
    const auto value = static_cast<unsigned char>(byte);
    if (byte == '\n') {
      quoted += "\\n";
    } else if (value < 0x20 || value == 0x7f) {
      quoted += {'\\', 'x', kHex[value >> 4], kHex[value & 15]};
    } else {
      if (byte == '"' || byte == '\\') quoted += '\\';
      quoted += byte;
    }
  }
  return quoted + '"';
}

std::string describe_range(const KeyRange& range, bool whole) {
  constexpr double kUnlimited = 1e300;
  std::string text = whole ? "a whole number" : "a finite number";
  text += str(range.above ? " above " : " from ", shortest(range.min));
  if (range.max < kUnlimited)
    text += str(range.below ? " to below " : " to ",
                whole ? str(static_cast<std::int64_t>(range.max)) : shortest(range.max));
  return text;
}

}  // namespace

const Key* find_key(const std::string& path) {
  const std::vector<Key>& keys = all_keys();
  const auto key =
      std::find_if(keys.begin(), keys.end(), [&](const Key& each) { return each.path == path; });
  return key == keys.end() ? nullptr : &*key;
}

const KeyList* find_key_list(const std::string& path) {
  const std::vector<KeyList>& lists = all_key_lists();
  const auto list = std::find_if(lists.begin(), lists.end(),
                                 [&](const KeyList& each) { return each.path == path; });
  return list == lists.end() ? nullptr : &*list;
}

std::string describe_allowed(const Key& key) {
  switch (key.type) {
    case KeyType::kFlag:
      return "true or false";
    case KeyType::kWhole:
      return describe_range(key.range, /*whole=*/true);
    case KeyType::kDegree:
      return describe_range(key.range, /*whole=*/true) + ", or auto";
    case KeyType::kNumber:
      return describe_range(key.range, /*whole=*/false);
    case KeyType::kText:
      return key.choices.empty() ? "a text" : str("one of ", join(key.choices));
    case KeyType::kTexts:
      return str("a list, each one of ", join(key.choices),
                 key.takes_every ? str("; with /n behind it, n from 2 to ", kMaxEvery) : "");
    case KeyType::kRanks:
      return "ascending ranks and ranges as 2-4,8, or nothing";
  }
  return "";
}

std::string write_value(const KeyValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return str(*whole);
  if (const double* number = std::get_if<double>(&value)) return shortest(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return write_text(*text);
  return "[" + join(std::get<std::vector<std::string>>(value), ", ", write_text) + "]";
}

}  // namespace tributary::config
