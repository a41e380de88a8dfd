#include "memory/simulate/virtual_network.h"

namespace tributary::memory {

void VirtualClock::at(TimePoint time, std::function<void()> run) {
  queue_.push({.time = time, .sequence = sequence_++, .run = std::move(run)});
}

bool VirtualClock::run_next() {
  if (queue_.empty()) return false;
  const Entry entry = queue_.top();
  queue_.pop();
  now_ = entry.time;
  entry.run();
  return true;
}

void VirtualNetwork::break_link(std::uint16_t one, std::uint16_t other, TimePoint until) {
  for (const auto& way : {std::pair(one, other), std::pair(other, one)}) {
    cuts_[way] = until;
    breaks_[way] = clock_.now();
  }
}

void VirtualNetwork::carry(std::uint16_t from, std::uint16_t to, std::vector<std::byte> bytes,
                           Arrive arrive) {
  const auto cut = cuts_.find({from, to});
  if (cut != cuts_.end() && clock_.now() < cut->second) return;
  if (draw_.uniform() < faults_.drop) return;
  const int copies = draw_.uniform() < faults_.duplicate ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    std::vector<std::byte> carried = bytes;
    if (draw_.uniform() < faults_.corrupt && !carried.empty())
      carried[draw_.below(carried.size())] ^= std::byte{1} << draw_.below(8);
    const Nanoseconds delay{draw_.between(50'000, faults_.max_delay.count)};
    clock_.after(delay,
                 [this, from, to, sent = clock_.now(), arrive, carried = std::move(carried)] {
                   const auto broken = breaks_.find({from, to});
                   if (broken == breaks_.end() || broken->second < sent) arrive(carried);
                 });
  }
}

}  // namespace tributary::memory
