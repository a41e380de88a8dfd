#include "app/requests/request_field.h"

#include <cmath>

#include "core/error.h"

namespace tributary::app {
namespace {

template <class Number>
void check_number(Number value, const RequestField& field, const std::string& name) {
  const bool has_most = std::isfinite(field.range.most);
  const auto least = static_cast<Number>(field.range.least);
  const auto most = has_most ? static_cast<Number>(field.range.most) : Number{};
  TRIB_REQUIRE(value >= least && (!has_most || value <= most), .what = "app: value cannot be used",
               .where = name, .found = str(value),
               .expected = str(least, has_most ? str(" to ", most) : " or above",
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
