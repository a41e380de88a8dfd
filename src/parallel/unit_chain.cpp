#include "parallel/unit_chain.h"

#include <algorithm>

#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>

#include "parallel/unit.h"

namespace tributary::parallel {

void UnitChain::begin_pass(int virtual_stage) {
  const auto is_of_stage = [&](const Unit* unit) {
    return unit->layout().virtual_stage == virtual_stage;
  };
  const auto first = std::ranges::find_if(units_, is_of_stage);
  const auto end = std::find_if_not(first, units_.end(), is_of_stage);
  pass_first_ = static_cast<std::size_t>(first - units_.begin());
  pass_end_ = static_cast<std::size_t>(end - units_.begin());
  forward_at_.reset();
  backward_at_.reset();
}

void UnitChain::prefetch_after(std::size_t place) {
  // A tied head uses the embedding's unit a second time, after the units that follow it.
  if (place < pass_first_ || (forward_at_ && place < *forward_at_)) return;
  forward_at_ = place;
  const std::size_t end = pass_end_.value_or(units_.size());
  int ahead = 0;
  for (std::size_t i = place + 1; i < end && ahead < options_.prefetch; ++i) {
    if (units_[i]->is_adapter()) continue;  // it is gathered with the unit before
    units_[i]->start_gather();
    ++ahead;
  }
}

void UnitChain::prefetch_before(std::size_t place) {
  // Backward of a tied head comes before that of the last unit.
  std::size_t end = pass_end_.value_or(units_.size());
  while (end > place + 1 && units_[end - 1]->is_adapter()) --end;
  if (place < pass_first_ || (backward_at_ ? place > *backward_at_ : place + 1 != end)) return;
  backward_at_ = place;
  int ahead = 0;
  for (std::size_t i = place; i-- > pass_first_ && ahead < options_.prefetch;) {
    if (units_[i]->is_adapter() || !units_[i]->expects_backward()) continue;
    units_[i]->start_gather();
    ++ahead;
  }
}

void UnitChain::add_reduction(Unit& unit) {
  constexpr std::size_t kMaxUnderWay = 2;
  reducing_.push_back(&unit);
  while (reducing_.size() > kMaxUnderWay) {
    reducing_.front()->finish_reduction();
    reducing_.pop_front();
  }
}

void UnitChain::add_over_replicas() {
  for (; over_replicas_ < units_.size(); ++over_replicas_) {
    const Unit& unit = *units_[units_.size() - 1 - over_replicas_];
    if (!unit.trainable()) continue;
    if (!unit.is_complete() && !all_are_complete_) return;
    adding_.push_back(unit.layout().mesh->replicate().all_reduce(unit.shard_gradient()));
  }
}

void UnitChain::finish_reductions() {
  if (options_.reduce_once)
    for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit) (*unit)->start_reduction();
  for (Unit* unit : reducing_) unit->finish_reduction();
  reducing_.clear();
  all_are_complete_ = true;
  add_over_replicas();
  for (mesh::Pending& sum : adding_) sum.wait();
  adding_.clear();
  in_last_backward_.clear();
  over_replicas_ = 0;
  all_are_complete_ = false;
}

at::DataPtr UnitChain::take(std::size_t bytes, at::Device device) {
  if (const auto known = free_.find({device.str(), bytes}); known != free_.end()) {
    at::DataPtr memory = std::move(known->second);
    free_.erase(known);
    return memory;
  }
  const c10::DeviceGuard on_it(device);  // allocators take from the current device
  return c10::GetAllocator(device.type())->allocate(bytes);
}

void UnitChain::give_back(at::DataPtr memory, std::size_t bytes) {
  const std::pair key(memory.device().str(), bytes);
  free_.emplace(key, std::move(memory));
}

}  // namespace tributary::parallel
