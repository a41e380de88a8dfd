#include <algorithm>
#include <map>

#include "data/text/unicode_text.h"
#include "train/validation/score/answer_scores.h"

namespace tributary::train {
namespace {

using Words = std::vector<std::u32string>;

bool is_punctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

/// Puts a space in place of each article that no letter or number touches.
std::u32string without_articles(const std::u32string& text) {
  std::u32string kept;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    while (end < text.size() && data::is_alphanumeric(text[end])) ++end;
    const std::u32string word = text.substr(begin, end - begin);
    kept += word == U"a" || word == U"an" || word == U"the" ? U" " : word;
    if (end < text.size()) kept += text[end++];
    begin = end;
  }
  return kept;
}

Words squad_words(const std::string& text) {
  std::u32string lower = data::lower_case(data::to_characters(text));
  std::erase_if(lower, is_punctuation);
  return data::split_at_spaces(without_articles(lower));
}

double overlap(const Words& answer, const Words& reference) {
  if (answer.empty() || reference.empty()) return answer == reference ? 1 : 0;
  std::map<std::u32string, std::int64_t> left;
  for (const std::u32string& word : reference) ++left[word];
  std::int64_t same = 0;
  for (const std::u32string& word : answer)
    if (const auto own = left.find(word); own != left.end() && own->second-- > 0) ++same;
  if (same == 0) return 0;
  const double precision = static_cast<double>(same) / static_cast<double>(answer.size());
  const double recall = static_cast<double>(same) / static_cast<double>(reference.size());
  return 2 * precision * recall / (precision + recall);
}

}  // namespace

double token_f1(const std::string& answer, std::span<const std::string> references) {
  const Words words = squad_words(answer);
  double best = 0;
  for (const std::string& reference : references)
    best = std::max(best, overlap(words, squad_words(reference)));
  return best;
}

}  // namespace tributary::train
