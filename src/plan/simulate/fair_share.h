#pragma once

#include <span>
#include <vector>

#include "plan/simulate/step_load.h"

namespace tributary::plan {

/// Shares links among the flows on them, max-min fair: no flow can get more without taking from one
/// that has no more than it.
///
/// units:  bytes per nanosecond
/// source: Bertsekas and Gallager 1992, "Data networks" section 6.5.2 (progressive filling)
class FairShare {
 public:
  explicit FairShare(std::vector<double> capacity);

  /// Adds a flow along a route, or removes it. Rates are those of before until settle().
  void add(int flow, const Route& route);
  void remove(int flow);
  /// Shares the links anew that flows have come to or left; returns the flows whose rates may have
  /// changed, in ascending order: those that are joined to them by shared links.
  ///
  /// cost: O(links^2 + flows * log(flows)) for each group of joined ones
  std::span<const int> settle();
  [[nodiscard]] double rate(int flow) const { return flows_[flow].rate; }

 private:
  struct Flow {
    const Route* route = nullptr;  // nullptr: not there
    double rate = 0;
    bool joined = false;
    bool fixed = false;
  };
  struct Link {
    double capacity = 0;
    double left = 0;
    double weight = 0;     // of the flows that may still grow
    int open = 0;          // how many these are
    bool changed = false;  // since settle()
    bool joined = false;
    std::vector<int> flows = {};  // ascending
  };

  void mark(const Route& route);
  void join_links(const Route& route);
  void join();
  void fill_alone();
  void fill();
  [[nodiscard]] int narrowest_link() const;
  void fix(int flow, double rate);

  std::vector<Flow> flows_;
  std::vector<Link> links_;
  std::vector<int> changed_links_;  // since settle()
  std::vector<int> settled_;        // what settle() gives
  bool is_given_ = true;            // it was given: begins anew
  // One group of flows and links that hang together:
  std::vector<int> joined_flows_;
  std::vector<int> joined_links_;
  std::vector<int> by_limit_;  // the flows, the lowest limit of their own first
};

}  // namespace tributary::plan
