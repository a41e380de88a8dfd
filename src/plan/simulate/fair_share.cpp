#include "plan/simulate/fair_share.h"

#include <algorithm>
#include <limits>

namespace tributary::plan {

FairShare::FairShare(std::vector<double> capacity) {
  for (const double each : capacity) links_.push_back({.capacity = each});
}

std::span<const int> FairShare::add(int flow, const Route& route) {
  if (flow >= std::ssize(flows_)) flows_.resize(static_cast<std::size_t>(flow) + 1);
  flows_[flow].route = &route;
  for (const LinkUse& use : route.links) {
    std::vector<int>& flows = links_[use.link].flows;
    flows.insert(std::lower_bound(flows.begin(), flows.end(), flow), flow);
  }
  join(route);
  if (route.links.empty()) joined_flows_.assign(1, flow);
  fill();
  return joined_flows_;
}

std::span<const int> FairShare::remove(int flow) {
  const Route& route = *flows_[flow].route;
  flows_[flow] = {};
  for (const LinkUse& use : route.links) {
    std::vector<int>& flows = links_[use.link].flows;
    flows.erase(std::lower_bound(flows.begin(), flows.end(), flow));
  }
  join(route);
  fill();
  return joined_flows_;
}

/// Finds the flows and links that the route's links hang together with.
void FairShare::join(const Route& route) {
  joined_flows_.clear();
  joined_links_.clear();
  const auto join_links = [this](const Route& of) {
    for (const LinkUse& use : of.links) {
      if (links_[use.link].joined) continue;
      links_[use.link].joined = true;
      joined_links_.push_back(use.link);
    }
  };
  join_links(route);
  for (std::size_t next = 0; next < joined_links_.size(); ++next) {
    for (const int flow : links_[joined_links_[next]].flows) {
      if (flows_[flow].joined) continue;
      flows_[flow].joined = true;
      joined_flows_.push_back(flow);
      join_links(*flows_[flow].route);
    }
  }
  std::sort(joined_flows_.begin(), joined_flows_.end());
}

void FairShare::fix(int flow, double rate) {
  flows_[flow].rate = rate;
  flows_[flow].fixed = true;
  for (const LinkUse& use : flows_[flow].route->links) {
    links_[use.link].left = std::max(0.0, links_[use.link].left - use.weight * rate);
    links_[use.link].weight -= use.weight;
  }
}

/// Lets all rates grow together; at each stop, of a full link or of a flow at its own limit, the
/// flows concerned keep what they have.
void FairShare::fill() {
  for (const int link : joined_links_) {
    links_[link].joined = false;
    links_[link].left = links_[link].capacity;
    links_[link].weight = 0;
  }
  for (const int flow : joined_flows_) {
    flows_[flow].joined = flows_[flow].fixed = false;
    for (const LinkUse& use : flows_[flow].route->links) links_[use.link].weight += use.weight;
  }
  for (std::size_t open = joined_flows_.size(); open > 0;) {
    double level = std::numeric_limits<double>::infinity();
    int narrowest = -1;
    for (const int link : joined_links_) {
      const bool has_open = std::any_of(links_[link].flows.begin(), links_[link].flows.end(),
                                        [this](int flow) { return !flows_[flow].fixed; });
      if (!has_open || links_[link].left / links_[link].weight >= level) continue;
      level = links_[link].left / links_[link].weight;
      narrowest = link;
    }
    // Flows below the level stop at their own limit first.
    bool limited = false;
    for (const int flow : joined_flows_) {
      if (flows_[flow].fixed || flows_[flow].route->bytes_per_ns > level) continue;
      fix(flow, flows_[flow].route->bytes_per_ns);
      --open;
      limited = true;
    }
    if (limited) continue;
    for (const int flow : links_[narrowest].flows) {
      if (flows_[flow].fixed) continue;
      fix(flow, level);
      --open;
    }
  }
}

}  // namespace tributary::plan
