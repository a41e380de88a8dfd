#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "core/result.h"
#include "memory/status.h"

namespace tributary::memory {

/// Counts what peers were refused, by code, and logs it: at most a line a second for each code, so
/// that nobody fills the log from outside.
class RefusalCounts {
 public:
  /// `where` names the peer: an address, or a user.
  void add(const Refusal& refusal, std::string_view where, TimePoint now);

  [[nodiscard]] std::uint64_t of(std::string_view code) const;
  [[nodiscard]] std::uint64_t total() const;
  [[nodiscard]] std::map<std::string, std::uint64_t> by_code() const;

 private:
  struct Count {
    std::uint64_t seen = 0;
    std::uint64_t logged = 0;
    TimePoint next_line = {};
  };
  std::map<std::string, Count, std::less<>> counts_;  // codes are words of this program
};

}  // namespace tributary::memory
