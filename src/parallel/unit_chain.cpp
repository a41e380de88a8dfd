#include "parallel/unit_chain.h"

#include <algorithm>

#include <c10/core/Allocator.h>

#include "parallel/unit.h"

namespace tributary::parallel {

void UnitChain::prefetch_after(std::size_t place) {
  if (place != 0 && place < forward_at_) return;  // a tied head uses the first unit once more
  forward_at_ = place;
  const std::size_t end =
      std::min(units_.size(), place + 1 + static_cast<std::size_t>(options_.prefetch));
  for (std::size_t i = place + 1; i < end; ++i) units_[i]->start_gather();
}

void UnitChain::prefetch_before(std::size_t place) {
  for (std::size_t i = place + 1; i < units_.size(); ++i)
    if (units_[i]->expects_backward()) return;  // likewise
  int ahead = 0;
  for (std::size_t i = place; i-- > 0 && ahead < options_.prefetch;) {
    if (!units_[i]->expects_backward()) continue;
    units_[i]->start_gather();
    ++ahead;
  }
}

void UnitChain::add_reduction(Unit& unit) {
  constexpr std::size_t kMostUnderWay = 2;
  reducing_.push_back(&unit);
  while (reducing_.size() > kMostUnderWay) {
    reducing_.front()->finish_reduction();
    reducing_.pop_front();
  }
}

void UnitChain::finish_reductions() {
  if (options_.reduce_once)
    for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit) (*unit)->start_reduction();
  for (Unit* unit : reducing_) unit->finish_reduction();
  reducing_.clear();
}

at::DataPtr UnitChain::take(std::size_t bytes, at::Device device) {
  if (const auto known = free_.find(bytes); known != free_.end()) {
    at::DataPtr memory = std::move(known->second);
    free_.erase(known);
    return memory;
  }
  return c10::GetAllocator(device.type())->allocate(bytes);
}

void UnitChain::give_back(at::DataPtr memory, std::size_t bytes) {
  free_.emplace(bytes, std::move(memory));
}

}  // namespace tributary::parallel
