#include <algorithm>
#include <numeric>

#include "data/text/unicode_text.h"
#include "train/validation/score/answer_scores.h"

namespace tributary::train {
namespace {

constexpr double kMinSimilarity = 0.5;

std::u32string simplify(const std::u32string& text) {
  std::u32string simple;
  for (const std::u32string& word : data::split_at_spaces(data::lower_case(text))) {
    if (!simple.empty()) simple += U' ';
    simple += word;
  }
  return simple;
}

/// The number of characters to insert, delete or replace (Levenshtein).
/// cost: O(|a| |b|) time
std::int64_t count_edits(const std::u32string& a, const std::u32string& b) {
  std::vector<std::int64_t> row(b.size() + 1);  // edits from a prefix of `a` to each prefix of `b`
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::int64_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::int64_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

double anls(const std::string& answer, std::span<const std::string> references) {
  const std::u32string whole = data::to_characters(answer);
  const std::u32string simple = simplify(whole);
  double min = 1;  // edits by length
  for (const std::string& reference : references) {
    const std::u32string other = data::to_characters(reference);
    const std::size_t length =
        std::max(data::uppercase_length(whole), data::uppercase_length(other));
    min = length == 0 ? 0
                      : std::min(min, static_cast<double>(count_edits(simplify(other), simple)) /
                                          static_cast<double>(length));
  }
  const double similarity = 1 - min;
  return similarity < kMinSimilarity ? 0 : similarity;
}

}  // namespace tributary::train
