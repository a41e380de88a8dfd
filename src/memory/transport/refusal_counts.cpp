#include "memory/transport/refusal_counts.h"

#include "core/log.h"
#include "core/text.h"

namespace tributary::memory {

constexpr TimePoint kSilence = {1'000'000'000};  // after a line, for each code

void RefusalCounts::add(const Refusal& refusal, std::string_view where, TimePoint now) {
  Count& count = counts_[refusal.code];
  ++count.seen;
  if (count.logged > 0 && now < count.next_line) return;
  const std::uint64_t silent = count.seen - count.logged - 1;
  log_warning(str(refusal.reason, "; peer ", where, "; connection closed",
                  silent > 0 ? str("; ", silent, " more since the last line") : ""));
  count.logged = count.seen;
  count.next_line = now + kSilence;
}

std::uint64_t RefusalCounts::of(std::string_view code) const {
  const auto found = counts_.find(code);
  return found == counts_.end() ? 0 : found->second.seen;
}

std::uint64_t RefusalCounts::total() const {
  std::uint64_t sum = 0;
  for (const auto& [code, count] : counts_) sum += count.seen;
  return sum;
}

std::map<std::string, std::uint64_t> RefusalCounts::by_code() const {
  std::map<std::string, std::uint64_t> numbers;
  for (const auto& [code, count] : counts_) numbers[code] = count.seen;
  return numbers;
}

}  // namespace tributary::memory
