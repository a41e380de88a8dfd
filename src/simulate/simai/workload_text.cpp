#include "simulate/simai/workload_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.h"
#include "core/split_text.h"

namespace tributary::simulate {
namespace {

constexpr std::string_view kBlanks = " \t\r";

}  // namespace

bool WorkloadText::next_line() {
  fields_.clear();
  if (rest_.empty()) return false;
  ++line_;
  const std::string_view line = take_until('\n', rest_);
  for (std::size_t begin = line.find_first_not_of(kBlanks); begin != std::string_view::npos;) {
    const std::size_t behind = std::min(line.find_first_of(kBlanks, begin), line.size());
    fields_.push_back({.text = line.substr(begin, behind - begin),
                       .column = static_cast<std::int64_t>(begin) + 1});
    begin = line.find_first_not_of(kBlanks, behind);
  }
  return true;
}

std::string WorkloadText::where() const {
  return str(path_, ":", std::max<std::int64_t>(1, line_));
}

std::string WorkloadText::where(std::size_t field) const {
  return str(where(), ":", fields_[field].column);
}

std::optional<double> WorkloadText::number(std::size_t field, std::int64_t max) const {
  const std::string_view text = fields_[field].text;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (!is_number || !(value <= static_cast<double>(max))) return std::nullopt;
  return value;
}

std::int64_t WorkloadText::whole(std::size_t field, std::string_view name, std::int64_t min,
                                 std::int64_t max) const {
  const std::optional<double> value = number(field, max);
  TRIB_REQUIRE(value && *value >= static_cast<double>(min) && *value == std::floor(*value),
               .what = str("simulate: ", name, " of a workload cannot be used"),
               .where = where(field), .found = escaped(fields_[field].text),
               .expected = str("a whole number, ", min, " to ", max));
  return static_cast<std::int64_t>(*value);
}

Nanoseconds WorkloadText::time(std::size_t field, std::string_view name) const {
  const std::optional<double> value = number(field, kMaxWorkloadTime);
  TRIB_REQUIRE(value && *value >= 0,
               .what = str("simulate: ", name, " of a workload cannot be used"),
               .where = where(field), .found = escaped(fields_[field].text),
               .expected = str("nanoseconds, 0 to ", kMaxWorkloadTime));
  return {std::llround(*value)};
}

}  // namespace tributary::simulate
