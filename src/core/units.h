#pragma once

#include <compare>
#include <cstdint>
#include <ostream>

namespace tributary {

/// A whole number with a unit in its type. Numbers of different units do not mix.
template <class Unit>
struct Quantity {
  std::int64_t count = 0;

  friend constexpr auto operator<=>(const Quantity&, const Quantity&) = default;
  constexpr Quantity& operator+=(Quantity other) {
    count += other.count;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    count -= other.count;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return {a.count + b.count}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return {a.count - b.count}; }
  friend constexpr Quantity operator*(Quantity a, std::int64_t times) { return {a.count * times}; }
  friend std::ostream& operator<<(std::ostream& out, Quantity quantity) {
    return out << quantity.count << Unit::kSuffix;
  }
};

struct ByteUnit {
  static constexpr const char* kSuffix = " B";
};
struct TokenUnit {
  static constexpr const char* kSuffix = " tokens";
};
struct NanosecondUnit {
  static constexpr const char* kSuffix = " ns";
};
struct FlopUnit {
  static constexpr const char* kSuffix = " FLOP";
};

using Bytes = Quantity<ByteUnit>;
using Tokens = Quantity<TokenUnit>;
using Nanoseconds = Quantity<NanosecondUnit>;
using Flops = Quantity<FlopUnit>;

[[nodiscard]] constexpr double seconds_of(Nanoseconds time) {
  return 1e-9 * static_cast<double>(time.count);
}

}  // namespace tributary
