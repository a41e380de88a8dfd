#include "config/plan/ranges.h"

#include <charconv>

#include "core/text.h"

namespace tributary::config {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 20;

struct Range {
  std::int64_t first;
  std::int64_t last;
};

std::optional<std::int64_t> parse_number(std::string_view text) {
  std::int64_t number = -1;
  const char* end = text.data() + text.size();
  const auto [stopped, failure] = std::from_chars(text.data(), end, number);
  if (failure != std::errc{} || stopped != end || number < 0 || number >= kMost)
    return std::nullopt;
  return number;
}

std::optional<Range> parse_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = parse_number(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_number(text.substr(dash + 1));
  if (!first || !last || *first > *last) return std::nullopt;
  return Range{*first, *last};
}

std::string write_range(std::int64_t first, std::int64_t last) {
  return first == last ? str(first) : str(first, "-", last);
}

}  // namespace

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
    text += (text.empty() ? "" : ",") + write_range(ranks[i], ranks[end - 1]);
    i = end;
  }
  return text;
}

std::optional<StageLayers> parse_stage(const std::vector<std::string>& units) {
  StageLayers stage;
  for (const std::string& unit : units) {
    const auto range = parse_range(unit);
    if (unit == "embed" && stage.empty()) {
      stage.embed = true;
    } else if (unit == "head" && !stage.head) {
      stage.head = true;
    } else if (range && stage.layers == 0 && !stage.head) {
      stage.first = range->first;
      stage.layers = range->last - range->first + 1;
    } else {
      return std::nullopt;
    }
  }
  if (stage.empty()) return std::nullopt;
  return stage;
}

std::vector<std::string> write_stage(const StageLayers& stage) {
  std::vector<std::string> units;
  if (stage.embed) units.emplace_back("embed");
  if (stage.layers > 0) units.push_back(write_range(stage.first, stage.first + stage.layers - 1));
  if (stage.head) units.emplace_back("head");
  return units;
}

}  // namespace tributary::config
