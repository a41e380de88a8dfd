#include "cost/watched_costs.h"

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "cost/profile_costs.h"

namespace tributary::cost {

void WatchedCosts::note(const std::string& table, const std::string& unit, std::int64_t measured,
                        double asked) const {
  const std::scoped_lock lock(guard_);
  config::BeyondGrid& found = beyond_[table];
  const std::int64_t largest = std::llround(std::ceil(asked));
  found = {
      .table = table, .unit = unit, .measured = measured, .asked = std::max(found.asked, largest)};
}

std::vector<config::BeyondGrid> WatchedCosts::beyond_grid() const {
  const std::scoped_lock lock(guard_);
  std::vector<config::BeyondGrid> list;
  for (const auto& [table, beyond] : beyond_) list.push_back(beyond);
  return list;
}

LayerCost WatchedCosts::layer(const std::string& module, const config::LayerShape& shape,
                              const PassShape& pass, const LayerPlacement& placement,
                              Training training) const {
  LayerCost cost = source_->layer(module, shape, pass, placement, training);
  if (pass.tokens <= 0) return cost;
  const std::string table = str(module, '.', layer_name(shape), " tp ", placement.tp);
  const std::int64_t measured = source_->measured_tokens(module, shape, placement.tp);
  if (pass.tokens > static_cast<double>(measured)) note(table, "tokens", measured, pass.tokens);
  const double attended = attended_pairs(shape, pass) / pass.tokens;
  const double longest = source_->measured_attended(module, shape, placement.tp);
  if (std::ceil(attended) > std::ceil(longest))
    note(table + " attention", "tokens each", std::llround(std::ceil(longest)), attended);
  return cost;
}

Nanoseconds WatchedCosts::collective(config::CollectiveOp op, const CommunicationGroup& group,
                                     Bytes bytes) const {
  const Nanoseconds time = source_->collective(op, group, bytes);
  if (group.ranks <= 1) return time;
  const std::int64_t measured = source_->measured_bytes(op, group.ranks);
  if (bytes.count > measured)
    note(str(collective_name(op), " of ", group.ranks, " ranks"), "B", measured,
         static_cast<double>(bytes.count));
  return time;
}

std::string describe(const std::vector<config::BeyondGrid>& beyond) {
  std::string text;
  for (const config::BeyondGrid& each : beyond)
    text += str(text.empty() ? "" : "; ", each.table, " at ", each.asked, ' ', each.unit,
                " (measured to ", each.measured, ")");
  return text;
}

}  // namespace tributary::cost
