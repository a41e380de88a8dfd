#pragma once

#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace tributary {

/// Joins the items of a range into one text, as an output stream would print `form` of each.
template <class Items, class Form = std::identity>
[[nodiscard]] std::string join(const Items& items, std::string_view between = ", ",
                               const Form& form = {}) {
  std::ostringstream out;
  std::string_view before;
  for (const auto& item : items) out << std::exchange(before, between) << std::invoke(form, item);
  return std::move(out).str();
}

}  // namespace tributary
