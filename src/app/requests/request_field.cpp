#include "app/requests/request_field.h"

#include <cmath>

#include "core/error.h"

namespace tributary::app {
namespace {

template <class Number>
void check_number(Number value, const RequestField& field, const std::string& name) {
  const bool has_max = std::isfinite(field.range.max);
  const auto min = static_cast<Number>(field.range.min);
  const auto max = has_max ? static_cast<Number>(field.range.max) : Number{};
  TRIB_REQUIRE(value >= min && (!has_max || value <= max), .what = "app: value cannot be used",
               .where = name, .found = str(value),
               .expected = str(min, has_max ? str(" to ", max) : " or above",
                               field.unit.empty() ? "" : " ", field.unit),
               .fix = "leave it out for the default");
}

}  // namespace

std::string option_names(const RequestField& field) {
  return field.option.empty() ? argument_name(Caller::kCommandLine, field.name) : field.option;
}

std::string given_name(const RequestField& field) {
  const std::size_t dashes = field.option.find("--");
  return dashes == std::string::npos ? argument_name(Caller::kCommandLine, field.name)
                                     : field.option.substr(dashes);
}

void check_ranges(std::span<const RequestField> fields, const GivenOptions& given) {
  for (const RequestField& field : fields) {
    const std::string name = given_name(field);
    if (!given.has(name)) continue;
    if (const auto* const* whole = std::get_if<std::int64_t*>(&field.value))
      check_number(**whole, field, given.name(name));
    if (const auto* const* number = std::get_if<double*>(&field.value))
      check_number(**number, field, given.name(name));
  }
}

}  // namespace tributary::app
