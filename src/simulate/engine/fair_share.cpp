#include "simulate/engine/fair_share.h"

#include <algorithm>
#include <limits>

namespace tributary::simulate {

FairShare::FairShare(const std::vector<double>& capacity, const std::vector<const Route*>& routes) {
  links_.reserve(capacity.size());
  for (const double each : capacity) links_.push_back({.capacity = each});
  flows_.reserve(routes.size());
  for (const Route* route : routes) {
    Flow& flow = flows_.emplace_back(Flow{.links = route->links, .alone = route->bytes_per_ns});
    for (const LinkUse& use : flow.links) {
      flow.alone = std::min(flow.alone, capacity[use.link] / use.weight);
      ++links_[use.link].flows;
    }
  }
  int first = 0;
  for (Link& link : links_) {
    link.first = first;
    first += link.flows;
    link.flows = 0;
  }
  on_link_.resize(static_cast<std::size_t>(first));
}

void FairShare::add(int flow) {
  for (const LinkUse& use : flows_[flow].links) {
    Link& link = links_[use.link];
    OnLink* const first = on_link_.data() + link.first;
    const OnLink added{.flow = flow, .alone = flows_[flow].alone, .weight = use.weight};
    int place = link.flows++;
    for (; place > 0 && added < first[place - 1]; --place) first[place] = first[place - 1];
    first[place] = added;
    mark(use.link);
  }
  flows_[flow].is_there = true;
  new_flows_.push_back(flow);
}

void FairShare::remove(int flow) {
  for (const LinkUse& use : flows_[flow].links) {
    Link& link = links_[use.link];
    OnLink* const first = on_link_.data() + link.first;
    int place = 0;
    while (first[place].flow != flow) ++place;
    for (--link.flows; place < link.flows; ++place) first[place] = first[place + 1];
    mark(use.link);
  }
  flows_[flow].is_there = false;
}

/// Notes that a link must be shared again.
void FairShare::mark(int link) {
  if (links_[link].changed) return;
  links_[link].changed = true;
  changed_links_.push_back(link);
}

/// Decides whether a link is full. A single flow never wants more than the link has.
void FairShare::weigh(Link& link) {
  link.changed = false;
  double wanted = 0;
  double weight = 0;
  for (const OnLink& each : on(link)) {
    wanted += each.weight * each.alone;
    weight += each.weight;
  }
  link.full = link.flows > 1 && wanted > link.capacity;
  link.level = link.capacity / weight;
}

std::span<const int> FairShare::settle() {
  settled_.clear();
  if (changed_links_.empty() && new_flows_.empty()) return settled_;
  regrouped_.clear();
  for (const int index : changed_links_) {
    const bool was_full = links_[index].full;
    weigh(links_[index]);
    if (links_[index].full || was_full) regrouped_.push_back(index);
  }
  changed_links_.clear();
  for (const int link : regrouped_)
    for (const OnLink& each : on(links_[link]))
      if (!flows_[each.flow].joined) share_group_of(each.flow);
  for (const int flow : new_flows_)
    if (flows_[flow].is_there && !flows_[flow].joined) share_group_of(flow);
  new_flows_.clear();
  for (const int flow : settled_) flows_[flow].joined = false;
  return settled_;
}

void FairShare::join(int index) {
  Flow& flow = flows_[index];
  if (flow.joined) return;
  flow.joined = true;
  settled_.push_back(index);
  for (const LinkUse& use : flow.links) {
    Link& link = links_[use.link];
    if (!link.full || link.joined) continue;
    link.joined = true;
    joined_links_.push_back(use.link);
  }
}

/// Finds the flows and full links connected to a flow, and shares these links. Each group is shared
/// separately, so that groups that have come apart do not affect each other's rounding.
void FairShare::share_group_of(int flow) {
  const std::size_t first = settled_.size();
  joined_links_.clear();
  join(flow);
  for (std::size_t next = 0; next < joined_links_.size(); ++next)
    for (const OnLink& each : on(links_[joined_links_[next]])) join(each.flow);
  share(std::span(settled_).subspan(first));
}

/// Usually all links of a group have one fair level that no flow's own limit is below: then all
/// flows get it. A flow without a full link gets its rate alone.
void FairShare::share(std::span<const int> flows) {
  if (joined_links_.empty()) {
    flows_[flows.front()].rate = flows_[flows.front()].alone;
    return;
  }
  const double level = links_[joined_links_.front()].level;
  bool is_one_level = true;
  for (const int index : joined_links_) {
    links_[index].joined = false;
    is_one_level = is_one_level && links_[index].level == level;
  }
  for (const int flow : flows) {
    flows_[flow].rate = level;
    is_one_level = is_one_level && flows_[flow].alone > level;
  }
  if (!is_one_level) fill(flows);
}

/// Raises all rates together. Whenever a link is full or a flow reaches its own limit, the flows
/// concerned keep their rate.
void FairShare::fill(std::span<const int> flows) {
  for (const int index : joined_links_) links_[index].left = links_[index].capacity;
  for (const int flow : flows) flows_[flow].fixed_in = 0;
  auto open = static_cast<int>(flows.size());
  for (int round = 1; open > 0; ++round) {
    const double level = next_level(round);
    const int limited = fix_limited(flows, level, round);
    open -= limited > 0 ? limited : fix_at(level, round);
  }
}

/// The level at which the first link is full when all open rates rise together, after subtracting
/// the flows fixed in the previous round.
double FairShare::next_level(int round) {
  double level = std::numeric_limits<double>::infinity();
  for (const int index : joined_links_) {
    Link& link = links_[index];
    double open_weight = 0;
    for (const OnLink& each : on(link)) {
      const Flow& flow = flows_[each.flow];
      if (flow.fixed_in == 0) {
        open_weight += each.weight;
      } else if (flow.fixed_in == round - 1) {
        link.left = std::max(0.0, link.left - each.weight * flow.rate);
      }
    }
    link.full_at =
        open_weight > 0 ? link.left / open_weight : std::numeric_limits<double>::infinity();
    level = std::min(level, link.full_at);
  }
  return level;
}

/// Fixes flows whose own limit is not above the level at that limit; returns how many.
int FairShare::fix_limited(std::span<const int> flows, double level, int round) {
  int fixed = 0;
  for (const int index : flows) {
    Flow& flow = flows_[index];
    if (flow.fixed_in > 0 || flow.alone > level) continue;
    flow.fixed_in = round;
    flow.rate = flow.alone;
    ++fixed;
  }
  return fixed;
}

/// Fixes the open flows of links that are full at this level; returns how many.
int FairShare::fix_at(double level, int round) {
  int fixed = 0;
  for (const int index : joined_links_) {
    if (links_[index].full_at != level) continue;
    for (const OnLink& each : on(links_[index])) {
      Flow& flow = flows_[each.flow];
      if (flow.fixed_in > 0) continue;
      flow.fixed_in = round;
      flow.rate = level;
      ++fixed;
    }
  }
  return fixed;
}

}  // namespace tributary::simulate
