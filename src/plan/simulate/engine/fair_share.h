#pragma once

#include <span>
#include <vector>

#include "plan/simulate/step_load.h"

namespace tributary::plan {

/// Shares links among the flows on them, max-min fair: no flow can get more without taking from one
/// that has no more than it. A flow that meets no link on which too much is wanted goes as if it
/// were alone, to the bit.
///
/// units:  bytes per nanosecond
/// source: Bertsekas and Gallager 1992, "Data networks" section 6.5.2 (progressive filling)
class FairShare {
 public:
  /// units: flows are numbered below `most_flows`
  FairShare(std::vector<double> capacity, std::size_t most_flows);

  /// Adds a flow along a route, or removes it. Rates are those of before until settle().
  void add(int flow, const Route& route);
  void remove(int flow);
  /// Shares the links anew that flows have come to or left; returns the flows whose rates may have
  /// changed, each once: those that came, and those that are joined to them, or to one that left,
  /// by links on which more is wanted than they have.
  ///
  /// cost: O(links^2 + flows * log(flows)) for each group of joined ones
  std::span<const int> settle();
  [[nodiscard]] double rate(int flow) const { return flows_[flow].rate; }

 private:
  struct Flow {
    const Route* route = nullptr;  // nullptr: not there
    double alone = 0;              // rate that it has when alone
    double rate = 0;
    bool is_new = false;  // since settle()
    bool joined = false;
    bool fixed = false;
  };
  struct OnLink {
    int flow = 0;
    double weight = 0;
  };
  struct Link {
    double capacity = 0;
    double left = 0;
    double level = 0;
    double weight = 0;     // of the flows that may still grow
    int open = 0;          // how many these are
    bool full = false;     // more is wanted than it has; as of settle()
    bool changed = false;  // since settle()
    bool joined = false;
    std::vector<OnLink> flows = {};  // ascending
  };

  void mark(int link);
  [[nodiscard]] bool is_full(const Link& link) const;
  void join_flows(const Link& link);
  void join(int link);
  void fill();
  [[nodiscard]] double next_level();
  void fix(int flow, double rate);
  void fix_at(double level);

  std::vector<Flow> flows_;
  std::vector<Link> links_;
  std::vector<int> changed_links_;  // since settle()
  std::vector<int> new_flows_;      // likewise
  std::vector<int> settled_;        // what settle() gives
  std::vector<int> regrouped_;      // links, of settle(), that are full or were
  // One group of flows and full links that hang together:
  std::vector<int> joined_flows_;
  std::vector<int> joined_links_;
  std::vector<int> by_limit_;  // the flows, the lowest limit of their own first
};

}  // namespace tributary::plan
