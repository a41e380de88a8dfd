#include "plan/simulate/engine/fair_share.h"

#include <algorithm>
#include <limits>

namespace tributary::plan {

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
    int place = link.flows++;
    for (; place > 0 && first[place - 1].flow > flow; --place) first[place] = first[place - 1];
    first[place] = {.flow = flow, .weight = use.weight};
    mark(use.link);
  }
  flows_[flow].is_new = true;
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
  flows_[flow].is_new = false;
}

/// Notes that a link is to be shared anew.
void FairShare::mark(int link) {
  if (links_[link].changed) return;
  links_[link].changed = true;
  changed_links_.push_back(link);
}

/// One flow that has a link to itself never wants more than it has.
void FairShare::weigh(Link& link) {
  link.changed = false;
  double wanted = 0;
  double weight = 0;
  for (const OnLink& each : on(link)) {
    wanted += each.weight * flows_[each.flow].alone;
    weight += each.weight;
  }
  link.full = link.flows > 1 && wanted > link.capacity;
  link.weight = weight;
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
  Link* const links = links_.data();
  for (const OnLink& each : on(link)) {
    Flow& flow = flows_[each.flow];
    if (flow.joined) continue;
    flow.joined = true;
    flow.is_new = false;
    settled_.push_back(each.flow);
    for (const LinkUse& use : flow.links) {
      Link& other = links[use.link];
      if (!other.full || other.joined) continue;
      other.joined = true;
      joined_links_.push_back(use.link);
    }
  }
}

/// Finds the flows and full links that a link hangs together with, and shares these links.
void FairShare::join(int link) {
  const std::size_t first = settled_.size();
  joined_links_.clear();
  join_flows(links_[link]);
  for (std::size_t next = 0; next < joined_links_.size(); ++next)
    join_flows(links_[joined_links_[next]]);
  const std::span joined = std::span(settled_).subspan(first);
  if (!joined.empty()) share(joined);
}

/// Mostly all links are full at one level, which no flow's own limit is below: then each flow on
/// them gets that, and one that only was on a full link what it has when alone.
void FairShare::share(std::span<const int> flows) {
  const double level = joined_links_.empty() ? 0 : links_[joined_links_.front()].level;
  bool is_one_level = true;
  for (const int index : joined_links_) {
    links_[index].joined = false;
    is_one_level = is_one_level && links_[index].level == level;
  }
  for (const int flow : flows) {
    flows_[flow].rate = flows_[flow].alone;
    is_one_level = is_one_level && flows_[flow].alone > level;
  }
  if (!is_one_level) return fill(flows);
  for (const int index : joined_links_)
    for (const OnLink& each : on(links_[index])) flows_[each.flow].rate = level;
}

void FairShare::fix(int flow, double rate) {
  flows_[flow].rate = rate;
  flows_[flow].fixed = true;
  for (const LinkUse& use : flows_[flow].links) {
    Link& link = links_[use.link];
    link.left = std::max(0.0, link.left - use.weight * rate);
    link.open_weight -= use.weight;
    --link.open;
  }
}

void FairShare::open_links() {
  std::sort(joined_links_.begin(), joined_links_.end());
  for (const int index : joined_links_) {
    Link& link = links_[index];
    link.left = link.capacity;
    link.open = link.flows;
    link.open_weight = link.weight;
  }
}

/// The level at which the first link is full when all rates grow together; infinity: no link has a
/// flow that may grow.
double FairShare::next_level() {
  double level = std::numeric_limits<double>::infinity();
  for (const int index : joined_links_) {
    Link& link = links_[index];
    link.full_at =
        link.open == 0 ? std::numeric_limits<double>::infinity() : link.left / link.open_weight;
    level = std::min(level, link.full_at);
  }
  return level;
}

/// Lets all rates grow together; at each stop, of a full link or of a flow at its own limit, the
/// flows concerned keep what they have.
void FairShare::fill(std::span<const int> flows) {
  open_links();
  for (const int flow : flows) flows_[flow].fixed = false;
  for (auto open = static_cast<int>(flows.size()); open > 0;) {
    const double level = next_level();
    const int limited = fix_limited(flows, level);
    open -= limited > 0 ? limited : fix_at(level);
  }
}

/// Flows whose own limit is not above the level get that, the lowest first.
int FairShare::fix_limited(std::span<const int> flows, double level) {
  limited_.clear();
  for (const int flow : flows)
    if (!flows_[flow].fixed && flows_[flow].alone <= level) limited_.push_back(flow);
  std::sort(limited_.begin(), limited_.end(), [this](int a, int b) {
    return flows_[a].alone != flows_[b].alone ? flows_[a].alone < flows_[b].alone : a < b;
  });
  for (const int flow : limited_) fix(flow, flows_[flow].alone);
  return static_cast<int>(limited_.size());
}

/// On links that are full at one level each flow that may still grow gets that level.
int FairShare::fix_at(double level) {
  int fixed = 0;
  for (const int index : joined_links_) {
    if (links_[index].full_at != level) continue;
    for (const OnLink& each : on(links_[index])) {
      if (flows_[each.flow].fixed) continue;
      fix(each.flow, level);
      ++fixed;
    }
  }
  return fixed;
}

}  // namespace tributary::plan
