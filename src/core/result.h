#pragma once

#include <string>
#include <utility>
#include <variant>

#include "core/error.h"

namespace tributary {

/// Why a value could not be given, where the caller is expected to branch on it.
struct Refusal {
  std::string code;    // one word, for counting: `jpeg_warning`, `too_long`
  std::string reason;  // a sentence with the values
};

/// A value or a Refusal. Reading the value of a refusal is a bug.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}            // NOLINT(google-explicit-constructor)
  Result(Refusal refusal) : state_(std::move(refusal)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  [[nodiscard]] const T& value() const& {
    check();
    return std::get<0>(state_);
  }
  [[nodiscard]] T&& value() && {
    check();
    return std::get<0>(std::move(state_));
  }
  [[nodiscard]] const Refusal& refusal() const { return std::get<1>(state_); }

 private:
  void check() const {
    TRIB_CHECK(has_value(), .what = "core: value of a refused result was read",
               .found = std::get<1>(state_).reason);
  }
  std::variant<T, Refusal> state_;
};

}  // namespace tributary
