#include "parallel/complete_gradients.h"

#include <map>
#include <vector>

#include <ATen/ATen.h>

#include "parallel/unit_chain.h"

namespace tributary::parallel {
namespace {

/// One all-reduce for all partial gradients of a group, whatever their number.
void add_over_copies(std::span<const std::unique_ptr<Unit>> units) {
  std::map<std::string, std::pair<const mesh::Group*, std::vector<at::Tensor>>> by_group;
  for (const auto& unit : units) {
    if (!unit->trainable()) continue;
    for (const auto& parameter : unit->parameters()) {
      const Split& split = parameter->split;
      const Range range = unit->range_of(*parameter);
      if (!split.partial_gradient || split.copies->is_single() || range.count == 0) continue;
      auto& [group, parts] = by_group[split.copies->name()];
      group = split.copies;
      parts.push_back(unit->shard_gradient().narrow(0, range.first, range.count));
    }
  }
  for (auto& [name, entry] : by_group) {
    auto& [group, parts] = entry;
    const at::Tensor all = at::cat(parts);
    group->all_reduce(all).wait();
    std::int64_t first = 0;
    for (at::Tensor& part : parts) {
      part.copy_(all.narrow(0, first, part.numel()));
      first += part.numel();
    }
  }
}

}  // namespace

void complete_gradients(std::span<const std::unique_ptr<Unit>> units) {
  const at::NoGradGuard no_grad;
  std::vector<UnitChain*> chains;  // in the order of their modules
  for (const auto& unit : units)
    if (UnitChain* chain = unit->layout().chain.get();
        chain != nullptr && std::ranges::find(chains, chain) == chains.end())
      chains.push_back(chain);
  for (UnitChain* chain : chains) chain->finish_reductions();
  if (!chains.empty()) add_over_copies(units);
}

}  // namespace tributary::parallel
