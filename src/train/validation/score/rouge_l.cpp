#include <algorithm>

#include "data/text/unicode_text.h"
#include "train/validation/score/answer_scores.h"

namespace tributary::train {
namespace {

std::vector<std::string> rouge_words(const std::string& text) {
  std::vector<std::string> words;
  bool is_open = false;
  for (const char32_t c : data::lower_case(data::to_characters(text))) {
    const bool counts = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (counts && !is_open) words.emplace_back();
    if (counts) words.back() += static_cast<char>(c);
    is_open = counts;
  }
  return words;
}

/// cost: O(|a| |b|) time
std::int64_t longest_common(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::int64_t> row(b.size() + 1);
  for (const std::string& word : a) {
    std::int64_t diagonal = 0;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::int64_t above = row[j + 1];
      row[j + 1] = word == b[j] ? diagonal + 1 : std::max(above, row[j]);
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

double rouge_l(const std::string& answer, std::span<const std::string> references) {
  const std::vector<std::string> words = rouge_words(answer);
  double best = 0;
  for (const std::string& reference : references) {
    const std::vector<std::string> expected = rouge_words(reference);
    const auto common = static_cast<double>(longest_common(expected, words));
    if (common == 0) continue;
    const double precision = common / static_cast<double>(words.size());
    const double recall = common / static_cast<double>(expected.size());
    best = std::max(best, 2 * precision * recall / (precision + recall));
  }
  return best;
}

}  // namespace tributary::train
