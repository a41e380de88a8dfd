#include "plan/simulate/fair_share.h"

#include <algorithm>
#include <limits>

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
  join_links(route);
  if (!route.links.empty()) return;
  flows_[flow].joined = true;
  joined_flows_.push_back(flow);
}

void FairShare::remove(int flow) {
  const Route& route = *flows_[flow].route;
  for (const LinkUse& use : route.links) {
    std::vector<int>& flows = links_[use.link].flows;
    flows.erase(std::lower_bound(flows.begin(), flows.end(), flow));
  }
  if (flows_[flow].joined) std::erase(joined_flows_, flow);
  flows_[flow] = {};
  join_links(route);
}

std::span<const int> FairShare::settle() {
  settled_.clear();
  if (joined_flows_.empty() && joined_links_.empty()) return settled_;
  join();
  fill();
  settled_.swap(joined_flows_);
  joined_flows_.clear();
  joined_links_.clear();
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

/// Lets all rates grow together; at each stop, of a full link or of a flow at its own limit, the
/// flows concerned keep what they have.
void FairShare::fill() {
  for (const int index : joined_links_) {
    Link& link = links_[index];
    link.joined = false;
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
