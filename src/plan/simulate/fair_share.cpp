#include "plan/simulate/fair_share.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tributary::plan {

FairShare::FairShare(std::vector<double> capacity) {
  for (const double each : capacity) links_.push_back({.capacity = each});
}

void FairShare::add(int flow, const Route& route) {
  if (flow >= std::ssize(flows_)) flows_.resize(static_cast<std::size_t>(flow) + 1);
  flows_[flow].route = &route;
  for (const LinkUse& use : route.links) {
    std::vector<int>& flows = links_[use.link].flows;
    flows.insert(std::lower_bound(flows.begin(), flows.end(), flow), flow);
  }
  mark(route);
  if (!route.links.empty()) return;
  if (std::exchange(is_given_, false)) settled_.clear();
  flows_[flow].rate = route.bytes_per_ns;
  settled_.push_back(flow);
}

void FairShare::remove(int flow) {
  const Route& route = *flows_[flow].route;
  for (const LinkUse& use : route.links) {
    std::vector<int>& flows = links_[use.link].flows;
    flows.erase(std::lower_bound(flows.begin(), flows.end(), flow));
  }
  flows_[flow] = {};
  mark(route);
}

/// Notes that the links of a route are to be shared anew.
void FairShare::mark(const Route& route) {
  for (const LinkUse& use : route.links) {
    if (links_[use.link].changed) continue;
    links_[use.link].changed = true;
    changed_links_.push_back(use.link);
  }
}

std::span<const int> FairShare::settle() {
  if (std::exchange(is_given_, true)) settled_.clear();
  for (const int link : changed_links_) {
    if (!links_[link].changed) continue;  // of a group that was met already
    joined_flows_.clear();
    joined_links_.assign(1, link);
    links_[link].joined = true;
    join();
    if (joined_flows_.size() == 1) {
      fill_alone();
    } else {
      fill();
    }
    settled_.insert(settled_.end(), joined_flows_.begin(), joined_flows_.end());
  }
  changed_links_.clear();
  std::sort(settled_.begin(), settled_.end());
  return settled_;
}

void FairShare::join_links(const Route& route) {
  for (const LinkUse& use : route.links) {
    if (links_[use.link].joined) continue;
    links_[use.link].joined = true;
    joined_links_.push_back(use.link);
  }
}

/// Finds the flows and links that the joined links hang together with.
void FairShare::join() {
  for (std::size_t next = 0; next < joined_links_.size(); ++next) {
    for (const int flow : links_[joined_links_[next]].flows) {
      if (flows_[flow].joined) continue;
      flows_[flow].joined = true;
      joined_flows_.push_back(flow);
      join_links(*flows_[flow].route);
    }
  }
  if (joined_flows_.size() < 2) return;
  std::sort(joined_flows_.begin(), joined_flows_.end());
  std::sort(joined_links_.begin(), joined_links_.end());
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

/// The link that is full first when all rates grow together; -1: none has a flow that may grow.
int FairShare::narrowest_link() const {
  int narrowest = -1;
  double level = std::numeric_limits<double>::infinity();
  for (const int index : joined_links_) {
    const Link& link = links_[index];
    if (link.open == 0 || link.left / link.weight >= level) continue;
    level = link.left / link.weight;
    narrowest = index;
  }
  return narrowest;
}

/// A flow that has its links to itself, as most have.
void FairShare::fill_alone() {
  Flow& flow = flows_[joined_flows_.front()];
  flow.joined = false;
  flow.rate = flow.route->bytes_per_ns;
  for (const LinkUse& use : flow.route->links) {
    Link& link = links_[use.link];
    link.joined = link.changed = false;
    flow.rate = std::min(flow.rate, link.capacity / use.weight);
  }
}

/// Lets all rates grow together; at each stop, of a full link or of a flow at its own limit, the
/// flows concerned keep what they have.
void FairShare::fill() {
  for (const int index : joined_links_) {
    Link& link = links_[index];
    link.joined = link.changed = false;
    link.left = link.capacity;
    link.weight = 0;
    link.open = static_cast<int>(link.flows.size());
  }
  for (const int flow : joined_flows_) {
    flows_[flow].joined = flows_[flow].fixed = false;
    for (const LinkUse& use : flows_[flow].route->links) links_[use.link].weight += use.weight;
  }
  by_limit_ = joined_flows_;
  std::stable_sort(by_limit_.begin(), by_limit_.end(), [this](int a, int b) {
    return flows_[a].route->bytes_per_ns < flows_[b].route->bytes_per_ns;
  });
  for (std::size_t next = 0; next < by_limit_.size();) {
    const Flow& slowest = flows_[by_limit_[next]];
    if (slowest.fixed) {
      ++next;
      continue;
    }
    const int narrowest = narrowest_link();
    const double level = narrowest < 0 ? slowest.route->bytes_per_ns
                                       : links_[narrowest].left / links_[narrowest].weight;
    if (slowest.route->bytes_per_ns <= level) {
      fix(by_limit_[next], slowest.route->bytes_per_ns);
      continue;
    }
    for (const int flow : links_[narrowest].flows)
      if (!flows_[flow].fixed) fix(flow, level);
  }
}

}  // namespace tributary::plan
