#include "plan/simulate/engine/fair_share.h"

#include <algorithm>
#include <limits>

namespace tributary::plan {

FairShare::FairShare(std::vector<double> capacity, std::size_t most_flows) : flows_(most_flows) {
  links_.reserve(capacity.size());
  for (const double each : capacity) links_.push_back({.capacity = each});
}

void FairShare::add(int flow, const Route& route) {
  double alone = route.bytes_per_ns;
  for (const LinkUse& use : route.links) {
    Link& link = links_[use.link];
    alone = std::min(alone, link.capacity / use.weight);
    const auto after = std::find_if(link.flows.begin(), link.flows.end(),
                                    [flow](const OnLink& each) { return each.flow > flow; });
    link.flows.insert(after, {.flow = flow, .weight = use.weight});
    mark(use.link);
  }
  flows_[flow] = {.route = &route, .alone = alone, .is_new = true};
  new_flows_.push_back(flow);
}

void FairShare::remove(int flow) {
  for (const LinkUse& use : flows_[flow].route->links) {
    std::vector<OnLink>& flows = links_[use.link].flows;
    flows.erase(std::find_if(flows.begin(), flows.end(),
                             [flow](const OnLink& each) { return each.flow == flow; }));
    mark(use.link);
  }
  flows_[flow] = {};
}

/// Notes that a link is to be shared anew.
void FairShare::mark(int link) {
  if (links_[link].changed) return;
  links_[link].changed = true;
  changed_links_.push_back(link);
}

/// One flow that has a link to itself never wants more than it has.
bool FairShare::is_full(const Link& link) const {
  if (link.flows.size() < 2) return false;
  double wanted = 0;
  for (const OnLink& each : link.flows) wanted += each.weight * flows_[each.flow].alone;
  return wanted > link.capacity;
}

std::span<const int> FairShare::settle() {
  settled_.clear();
  if (changed_links_.empty() && new_flows_.empty()) return settled_;
  regrouped_.clear();
  for (const int index : changed_links_) {
    Link& link = links_[index];
    const bool was_full = link.full;
    link.full = is_full(link);
    link.changed = false;
    if (link.full || was_full) regrouped_.push_back(index);
  }
  changed_links_.clear();
  for (const int link : regrouped_) join(link);
  for (const int flow : new_flows_) {
    if (!flows_[flow].is_new) continue;  // shares a full link, or has left already
    flows_[flow].is_new = false;
    flows_[flow].rate = flows_[flow].alone;
    settled_.push_back(flow);
  }
  new_flows_.clear();
  for (const int flow : settled_) flows_[flow].joined = false;
  return settled_;
}

void FairShare::join_flows(const Link& link) {
  for (const OnLink& each : link.flows) {
    Flow& flow = flows_[each.flow];
    if (flow.joined) continue;
    flow.joined = true;
    flow.is_new = false;
    joined_flows_.push_back(each.flow);
    for (const LinkUse& use : flow.route->links) {
      if (!links_[use.link].full || links_[use.link].joined) continue;
      links_[use.link].joined = true;
      joined_links_.push_back(use.link);
    }
  }
}

/// Finds the flows and full links that a link hangs together with, and shares these links.
void FairShare::join(int link) {
  joined_flows_.clear();
  joined_links_.clear();
  join_flows(links_[link]);
  for (std::size_t next = 0; next < joined_links_.size(); ++next)
    join_flows(links_[joined_links_[next]]);
  fill();
  settled_.insert(settled_.end(), joined_flows_.begin(), joined_flows_.end());
}

void FairShare::fix(int flow, double rate) {
  flows_[flow].rate = rate;
  flows_[flow].fixed = true;
  for (const LinkUse& use : flows_[flow].route->links) {
    Link& link = links_[use.link];
    link.left = std::max(0.0, link.left - use.weight * rate);
    link.weight -= use.weight;
    --link.open;
  }
}

/// The level at which the first link is full when all rates grow together; infinity: no link has a
/// flow that may grow.
double FairShare::next_level() {
  double level = std::numeric_limits<double>::infinity();
  for (const int index : joined_links_) {
    Link& link = links_[index];
    link.level = link.open == 0 ? std::numeric_limits<double>::infinity() : link.left / link.weight;
    level = std::min(level, link.level);
  }
  return level;
}

/// Lets all rates grow together; at each stop, of a full link or of a flow at its own limit, the
/// flows concerned keep what they have.
void FairShare::fill() {
  std::sort(joined_links_.begin(), joined_links_.end());
  for (const int index : joined_links_) {
    Link& link = links_[index];
    link.joined = false;
    link.left = link.capacity;
    link.open = static_cast<int>(link.flows.size());
    link.weight = 0;
    for (const OnLink& each : link.flows) link.weight += each.weight;
  }
  by_limit_ = joined_flows_;
  std::sort(by_limit_.begin(), by_limit_.end(), [this](int a, int b) {
    return flows_[a].alone != flows_[b].alone ? flows_[a].alone < flows_[b].alone : a < b;
  });
  for (const int flow : by_limit_) flows_[flow].fixed = false;
  for (auto slowest = by_limit_.begin(); slowest != by_limit_.end();) {
    const double level = next_level();
    bool is_limited = false;
    for (;
         slowest != by_limit_.end() && (flows_[*slowest].fixed || flows_[*slowest].alone <= level);
         ++slowest) {
      if (flows_[*slowest].fixed) continue;
      fix(*slowest, flows_[*slowest].alone);
      is_limited = true;
    }
    if (!is_limited) fix_at(level);
  }
}

/// On links that are full at one level each flow that may still grow gets that level.
void FairShare::fix_at(double level) {
  for (const int index : joined_links_) {
    if (links_[index].level != level) continue;
    for (const OnLink& each : links_[index].flows)
      if (!flows_[each.flow].fixed) fix(each.flow, level);
  }
}

}  // namespace tributary::plan
