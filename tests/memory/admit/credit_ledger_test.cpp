#include "memory/admit/credit_ledger.h"

#include <gtest/gtest.h>
#include <vector>

#include "core/error.h"
#include "core/random.h"

namespace tributary::memory {
namespace {

using Outcome = CreditLedger::Outcome;

CreditLedger ledger_of(std::uint32_t epoch) {
  CreditLedger ledger;
  ledger.begin_epoch(epoch);
  return ledger;
}

TEST(CreditLedger, MintsNothingFromLossRepetitionOrOrder) {  // I10
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    RandomStream draw(seed, "credit_ledger_test");
    std::vector<Credit> sent;
    for (std::uint64_t sequence = 1, total = 0; sequence <= 30; ++sequence)
      sent.push_back({.granted_pages = total += draw.below(5), .sequence = sequence, .epoch = 4});
    std::vector<Credit> arriving;
    for (const Credit& credit : sent)
      for (std::uint64_t copies = draw.below(3); copies > 0; --copies) arriving.push_back(credit);
    draw.shuffle(std::span(arriving));
    CreditLedger ledger = ledger_of(4);
    std::uint64_t newest = 0, consumed = 0;
    for (const Credit& credit : arriving) {
      const Outcome outcome = ledger.apply(credit);
      EXPECT_EQ(outcome, credit.sequence > newest ? Outcome::kApplied : Outcome::kRepeated);
      newest = std::max(newest, credit.sequence);
      const std::uint64_t granted = sent[newest - 1].granted_pages;
      ASSERT_EQ(ledger.granted(), granted);
      ASSERT_EQ(ledger.available(), granted - consumed);
      const std::uint64_t wanted = draw.below(8);
      ASSERT_EQ(ledger.consume(wanted), wanted <= granted - consumed);
      if (wanted <= granted - consumed) consumed += wanted;
      ASSERT_EQ(ledger.consumed(), consumed);
    }
  }
}

TEST(CreditLedger, CountsGapsAndOldEpochs) {
  CreditLedger ledger = ledger_of(4);
  EXPECT_EQ(ledger.apply({.granted_pages = 5, .sequence = 4, .epoch = 4}), Outcome::kApplied);
  EXPECT_EQ(ledger.gaps(), 3);
  EXPECT_EQ(ledger.apply({.granted_pages = 9, .sequence = 5, .epoch = 3}), Outcome::kOldEpoch);
  EXPECT_EQ(ledger.old_epochs(), 1);
  EXPECT_EQ(ledger.granted(), 5);
}

TEST(CreditLedger, CallsAFallingTotalAFault) {
  CreditLedger ledger = ledger_of(4);
  EXPECT_EQ(ledger.apply({.granted_pages = 5, .sequence = 1, .epoch = 4}), Outcome::kApplied);
  EXPECT_EQ(ledger.apply({.granted_pages = 4, .sequence = 2, .epoch = 4}), Outcome::kWithdrawn);
  EXPECT_EQ(ledger.granted(), 5);
}

TEST(CreditLedger, TakesBackNoMoreThanWasConsumed) {
  CreditLedger ledger = ledger_of(4);
  EXPECT_EQ(ledger.apply({.granted_pages = 5, .sequence = 1, .epoch = 4}), Outcome::kApplied);
  EXPECT_TRUE(ledger.consume(3));
  ledger.give_back(2);
  EXPECT_EQ(ledger.available(), 4);
  EXPECT_THROW(ledger.give_back(2), Error);
  ledger.begin_epoch(5);
  EXPECT_EQ(ledger.available(), 0);
}

}  // namespace
}  // namespace tributary::memory
