#include "core/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace tributary {
namespace {

std::size_t count_edits(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> known) {
  return nearest_name(name, known, std::max<std::size_t>(2, name.size() / 3));
}

std::string nearest_name(std::string_view name, std::span<const std::string> known,
                         std::size_t max_edits) {
  std::string nearest;
  std::size_t fewest = max_edits + 1;
  for (const std::string& candidate : known) {
    const std::size_t edits = count_edits(name, candidate);
    if (edits < fewest) {
      fewest = edits;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace tributary
