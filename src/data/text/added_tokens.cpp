#include "data/text/added_tokens.h"

#include <algorithm>
#include <utf8proc.h>

namespace tributary::data {
namespace {

std::uint8_t first_byte(std::string_view text) { return static_cast<std::uint8_t>(text.front()); }

std::int32_t first_point(std::string_view text) {
  utf8proc_int32_t point = 0;
  utf8proc_iterate(reinterpret_cast<const std::uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &point);
  return point;
}

/// The last character of a text that is not empty.
std::string_view last_character(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<std::uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  return text.substr(begin);
}

/// Unicode's property White_Space.
bool is_space(std::int32_t point) {
  return (point >= 0x09 && point <= 0x0D) || point == 0x20 || point == 0x85 || point == 0xA0 ||
         point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 ||
         point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

/// Letters, marks, digits, letter numbers and connectors: the class `\w` of a regular expression.
bool is_in_word(std::int32_t point) {
  switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return point == 0x200C || point == 0x200D;
  }
}

bool stands_alone(std::string_view before, std::string_view after) {
  return (before.empty() || !is_in_word(first_point(last_character(before)))) &&
         (after.empty() || !is_in_word(first_point(after)));
}

std::size_t spaces_at_end(std::string_view text) {
  std::size_t spaces = 0;
  while (!text.empty()) {
    const std::string_view last = last_character(text);
    if (!is_space(first_point(last))) break;
    spaces += last.size();
    text.remove_suffix(last.size());
  }
  return spaces;
}

std::size_t spaces_at_begin(std::string_view text) {
  std::size_t spaces = 0;
  utf8proc_int32_t point = 0;
  while (spaces < text.size()) {
    const auto length =
        utf8proc_iterate(reinterpret_cast<const std::uint8_t*>(text.data()) + spaces,
                         static_cast<utf8proc_ssize_t>(text.size() - spaces), &point);
    if (!is_space(point)) break;
    spaces += static_cast<std::size_t>(length);
  }
  return spaces;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
    if (first_byte(a.content) != first_byte(b.content)) {
      return first_byte(a.content) < first_byte(b.content);
    }
    return a.content.size() != b.content.size() ? a.content.size() > b.content.size()
                                                : a.content < b.content;
  });
  for (const AddedToken& token : tokens_) ++first_[first_byte(token.content) + 1];
  for (std::size_t byte = 1; byte < first_.size(); ++byte) first_[byte] += first_[byte - 1];
}

/// The longest token at the front of a text that is not empty.
const AddedToken* AddedTokens::match(std::string_view text) const {
  const std::uint8_t byte = first_byte(text);
  for (std::uint32_t i = first_[byte]; i < first_[byte + 1]; ++i) {
    if (text.starts_with(tokens_[i].content)) return &tokens_[i];
  }
  return nullptr;
}

std::vector<AddedTokens::Stretch> AddedTokens::cut(std::string_view text,
                                                   bool finds_special) const {
  std::vector<Stretch> stretches;
  std::size_t done = 0;  // everything before it is in a stretch
  std::size_t at = 0;
  while (at < text.size()) {
    const AddedToken* token = match(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    std::size_t end = at + token->content.size();
    at = end;  // a token that is passed over hides those inside it
    if (token->special && !finds_special) continue;
    if (token->single_word && !stands_alone(text.substr(0, begin), text.substr(end))) continue;
    if (token->strip_left) begin -= spaces_at_end(text.substr(done, begin - done));
    if (token->strip_right) end += spaces_at_begin(text.substr(end));
    at = end;
    if (begin > done) stretches.push_back({text.substr(done, begin - done), -1});
    stretches.push_back({text.substr(begin, end - begin), token->id});
    done = end;
  }
  if (done < text.size()) stretches.push_back({text.substr(done), -1});
  return stretches;
}

}  // namespace tributary::data
