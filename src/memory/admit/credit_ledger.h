#pragma once

#include <cstdint>

#include "memory/wire/structures.h"

namespace tributary::memory {

/// How many pages a producer may still allocate: granted by the controller as a total, consumed by
/// the objects that it has made of those it was assigned. A repeated or old grant gives nothing.
class CreditLedger {
 public:
  enum class Outcome { kApplied, kRepeated, kOldEpoch, kWithdrawn };

  /// Starts again at 0: grants and pages of an earlier epoch do not count.
  void begin_epoch(std::uint32_t epoch) { *this = CreditLedger(epoch); }
  /// Takes a grant. kWithdrawn is a fault of the protocol: a total never falls.
  Outcome apply(const Credit& credit);
  /// False, and nothing changes, when fewer pages are available.
  [[nodiscard]] bool consume(std::uint64_t pages);
  /// An allocation came to nothing, or its object was revoked: it is made again under this credit.
  ///
  /// errors: Fault::kBug when fewer were consumed
  void give_back(std::uint64_t pages);

  [[nodiscard]] std::uint64_t granted() const { return granted_; }
  [[nodiscard]] std::uint64_t consumed() const { return consumed_; }
  [[nodiscard]] std::uint64_t available() const { return granted_ - consumed_; }
  /// Grants that were lost, or have not come yet, when a later one was applied.
  [[nodiscard]] std::uint64_t gaps() const { return gaps_; }
  [[nodiscard]] std::uint64_t old_epochs() const { return old_epochs_; }

  CreditLedger() = default;

 private:
  explicit CreditLedger(std::uint32_t epoch) : epoch_(epoch) {}

  std::uint32_t epoch_ = 0;
  std::uint64_t granted_ = 0, consumed_ = 0, last_ = 0, gaps_ = 0, old_epochs_ = 0;
};

}  // namespace tributary::memory
