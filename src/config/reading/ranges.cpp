#include "config/reading/ranges.h"

#include <charconv>

#include "core/text.h"

namespace tributary::config {
namespace {

constexpr std::int64_t kMax = std::int64_t{1} << 20;

std::optional<std::int64_t> parse_number(std::string_view text) {
  std::int64_t number = -1;
  const char* end = text.data() + text.size();
  const auto [stopped, failure] = std::from_chars(text.data(), end, number);
  if (failure != std::errc{} || stopped != end || number < 0 || number >= kMax) return std::nullopt;
  return number;
}

}  // namespace

std::optional<NumberRange> parse_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = parse_number(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_number(text.substr(dash + 1));
  if (!first || !last || *first > *last) return std::nullopt;
  return NumberRange{*first, *last};
}

std::string write_range(const NumberRange& range) {
  return range.first == range.last ? str(range.first) : str(range.first, "-", range.last);
}

std::optional<std::vector<std::int64_t>> parse_ranks(std::string_view text) {
  std::vector<std::int64_t> ranks;
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    const auto range = parse_range(text.substr(0, comma));
    if (!range || (!ranks.empty() && range->first <= ranks.back())) return std::nullopt;
    for (std::int64_t rank = range->first; rank <= range->last; ++rank) ranks.push_back(rank);
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
  }
  return ranks;
}

std::string write_ranks(const std::vector<std::int64_t>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ",") + write_range({ranks[i], ranks[end - 1]});
    i = end;
  }
  return text;
}

}  // namespace tributary::config
