#include "memory/admit/credit_ledger.h"

#include "core/error.h"

namespace tributary::memory {

CreditLedger::Outcome CreditLedger::apply(const Credit& credit) {
  if (credit.epoch != epoch_) {
    ++old_epochs_;
    return Outcome::kOldEpoch;
  }
  if (credit.sequence <= last_) return Outcome::kRepeated;
  if (credit.granted_pages < granted_) return Outcome::kWithdrawn;
  gaps_ += credit.sequence - last_ - 1;
  granted_ = credit.granted_pages;
  last_ = credit.sequence;
  return Outcome::kApplied;
}

bool CreditLedger::consume(std::uint64_t pages) {
  if (pages > available()) return false;
  consumed_ += pages;
  return true;
}

void CreditLedger::give_back(std::uint64_t pages) {
  TRIB_CHECK(pages <= consumed_, .what = "memory: more credit was given back than consumed",
             .found = str(pages, " of ", consumed_, " pages"));
  consumed_ -= pages;
}

}  // namespace tributary::memory
