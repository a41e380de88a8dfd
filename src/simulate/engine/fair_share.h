#pragma once

#include <span>
#include <vector>

#include "simulate/program/step_load.h"

namespace tributary::simulate {

/// Shares links among the flows on them, max-min fair: no flow can get more without taking from one
/// that has no more. A flow on no full link gets exactly the rate that it has alone. Rates depend,
/// to the bit, only on the flows and the links: not on their numbers or on the order of arrival.
///
/// units:  bytes per nanosecond
/// source: Bertsekas and Gallager 1992, "Data networks" section 6.5.2 (progressive filling)
class FairShare {
 public:
  /// shape: routes of all flows that can exist; both must outlive this
  FairShare(const std::vector<double>& capacity, const std::vector<const Route*>& routes);

  /// Adds a flow, or removes it. Rates keep their old values until settle().
  void add(int flow);
  void remove(int flow);
  /// Shares the links of added and removed flows again. Returns the flows whose rates may have
  /// changed, each once: the new ones, and those that full links connect to a new or removed one.
  ///
  /// cost: O(flows * links of a flow) for each connected group whose links are all full at one
  ///       level; otherwise that times the number of rounds, each of which fills a link or brings a
  ///       flow to its own limit
  std::span<const int> settle();
  [[nodiscard]] double rate(int flow) const { return flows_[flow].rate; }

 private:
  struct Flow {
    std::span<const LinkUse> links = {};
    double alone = 0;  // its rate without other flows
    double rate = 0;
    bool is_there = false;
    bool joined = false;  // in settle(): already in a group
    int fixed_in = 0;     // round of fill(); 0: may still grow
  };
  /// Ordered by what determines rates, so that sums do not depend on the numbers of flows.
  struct OnLink {
    int flow = 0;
    double alone = 0;
    double weight = 0;

    bool operator<(const OnLink& other) const {
      return alone != other.alone ? alone < other.alone : weight < other.weight;
    }
  };
  struct Link {
    double capacity = 0;
    double level = 0;      // the rate of all its flows when they fill it
    int first = 0;         // index of its first flow in on_link_
    int flows = 0;         // the number of its flows
    bool full = false;     // more is wanted than it has, as of the last settle()
    bool changed = false;  // since settle()
    bool joined = false;   // to the group being shared
    // Used while rates grow:
    double left = 0;
    double full_at = 0;  // level; infinity: none of its flows may grow
  };

  [[nodiscard]] std::span<const OnLink> on(const Link& link) const {
    return std::span(on_link_).subspan(link.first, link.flows);
  }
  void mark(int link);
  void weigh(Link& link);
  void join(int flow);
  void share_group_of(int flow);
  void share(std::span<const int> flows);
  void fill(std::span<const int> flows);
  [[nodiscard]] double next_level(int round);
  int fix_limited(std::span<const int> flows, double level, int round);
  int fix_at(double level, int round);

  std::vector<Flow> flows_;
  std::vector<Link> links_;
  std::vector<OnLink> on_link_;     // every link has room for all flows that may use it
  std::vector<int> changed_links_;  // since settle()
  std::vector<int> new_flows_;      // since settle()
  std::vector<int> settled_;        // the result of settle()
  std::vector<int> regrouped_;      // links that are full or were, in settle()
  std::vector<int> joined_links_;   // full links of one connected group
};

}  // namespace tributary::simulate
