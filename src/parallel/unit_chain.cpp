#include "parallel/unit_chain.h"

#include <algorithm>

#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>

#include "parallel/unit.h"

namespace tributary::parallel {

bool UnitChain::are_of_one_stage(std::size_t place, std::size_t other) const {
  return units_[place]->layout().virtual_stage == units_[other]->layout().virtual_stage;
}

void UnitChain::prefetch_after(std::size_t place) {
  if (place < forward_at_) return;  // a tied head uses the embedding's unit once more
  forward_at_ = place;
  const std::size_t end =
      std::min(units_.size(), place + 1 + static_cast<std::size_t>(options_.prefetch));
  for (std::size_t i = place + 1; i < end && are_of_one_stage(place, i); ++i)
    units_[i]->start_gather();
}

void UnitChain::prefetch_before(std::size_t place) {
  std::size_t from = place;
  if (place >= backward_at_)  // a pass begins: where a tied head does, its stage's end comes next
    for (std::size_t i = place + 1; i < units_.size() && are_of_one_stage(place, i); ++i)
      if (units_[i]->expects_backward()) from = i + 1;
  backward_at_ = place;
  int ahead = 0;
  for (std::size_t i = from; i-- > 0 && ahead < options_.prefetch && are_of_one_stage(place, i);) {
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

UnitChain::FreeKey UnitChain::key_of(at::Device device, std::size_t bytes) {
  return {device.type(), device.index(), bytes};
}

at::DataPtr UnitChain::take(std::size_t bytes, at::Device device) {
  if (const auto known = free_.find(key_of(device, bytes)); known != free_.end()) {
    at::DataPtr memory = std::move(known->second);
    free_.erase(known);
    return memory;
  }
  const c10::DeviceGuard guard(device);  // allocators take from the current device
  return c10::GetAllocator(device.type())->allocate(bytes);
}

void UnitChain::give_back(at::DataPtr memory, std::size_t bytes) {
  const FreeKey key = key_of(memory.device(), bytes);
  free_.emplace(key, std::move(memory));
}

}  // namespace tributary::parallel
