#include "data/text/unicode_text.h"

#include <cstdint>
#include <utf8proc.h>

#include "data/text/clean_utf8.h"

namespace tributary::data {
namespace {

constexpr char32_t kCapitalSigma = 0x3A3;
constexpr char32_t kFinalSigma = 0x3C2;
constexpr char32_t kDottedCapitalI = 0x130;
constexpr char32_t kDotAbove = 0x307;

utf8proc_category_t category_of(char32_t character) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

bool is_cased(char32_t character) {
  const utf8proc_category_t category = category_of(character);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

/// Whether a character may stand between a sigma and the letter that decides its form.
bool is_passed_over(char32_t character) {
  switch (category_of(character)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return character == '\'' || character == '.' || character == ':' || character == 0xB7 ||
             character == 0x2018 || character == 0x2019 || character == 0x2024 ||
             character == 0x2027;
  }
}

bool ends_word(std::u32string_view text, std::size_t sigma) {
  std::size_t before = sigma;
  while (before > 0 && is_passed_over(text[before - 1])) --before;
  std::size_t after = sigma + 1;
  while (after < text.size() && is_passed_over(text[after])) ++after;
  return before > 0 && is_cased(text[before - 1]) &&
         (after == text.size() || !is_cased(text[after]));
}

}  // namespace

bool is_white_space(char32_t character) {
  return (character >= 0x09 && character <= 0x0D) || (character >= 0x1C && character <= 0x20) ||
         character == 0x85 || character == 0xA0 || character == 0x1680 ||
         (character >= 0x2000 && character <= 0x200A) || character == 0x2028 ||
         character == 0x2029 || character == 0x202F || character == 0x205F || character == 0x3000;
}

std::u32string to_characters(std::string_view text) {
  const std::string clean = clean_utf8(text);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(clean.data());  // NOLINT
  std::u32string characters;
  for (std::size_t at = 0; at < clean.size();) {
    utf8proc_int32_t point = 0;
    at += static_cast<std::size_t>(
        utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(clean.size() - at), &point));
    characters += static_cast<char32_t>(point);
  }
  return characters;
}

std::u32string lower_case(std::u32string_view text) {
  std::u32string lower;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == kDottedCapitalI) {
      lower += U'i';
      lower += kDotAbove;
    } else if (text[i] == kCapitalSigma && ends_word(text, i)) {
      lower += kFinalSigma;
    } else {
      lower += static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(text[i])));
    }
  }
  return lower;
}

std::size_t uppercase_length(std::u32string_view text) {
  constexpr int kMaxOfOne = 4;  // characters that one folds into
  std::size_t length = 0;
  for (const char32_t character : text) {
    utf8proc_int32_t folded[kMaxOfOne] = {};
    int boundary = 0;
    // Folding lengthens the characters that upper case lengthens, and a few capitals.
    const utf8proc_ssize_t count =
        category_of(character) == UTF8PROC_CATEGORY_LU
            ? 1
            : utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character), folded, kMaxOfOne,
                                      UTF8PROC_CASEFOLD, &boundary);
    length += count > 0 ? static_cast<std::size_t>(count) : 1;
  }
  return length;
}

std::vector<std::u32string> split_at_spaces(std::u32string_view text) {
  std::vector<std::u32string> words;
  bool is_open = false;
  for (const char32_t character : text) {
    const bool space = is_white_space(character);
    if (!space && !is_open) words.emplace_back();
    if (!space) words.back() += character;
    is_open = !space;
  }
  return words;
}

bool is_alphanumeric(char32_t character) {
  switch (category_of(character)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return true;
    default:
      return false;
  }
}

bool is_decimal(char32_t character) { return category_of(character) == UTF8PROC_CATEGORY_ND; }

}  // namespace tributary::data
