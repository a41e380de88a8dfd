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

  /// Adds a flow along a route, or removes it; returns the flows whose rates may have changed, in
  /// ascending order: those that are joined to it by shared links.
  ///
  /// cost: O(links * flows) of the joined ones
  std::span<const int> add(int flow, const Route& route);
  std::span<const int> remove(int flow);
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
    double weight = 0;  // of the flows that may still grow
    bool joined = false;
    std::vector<int> flows = {};  // ascending
  };

  void join(const Route& route);
  void fill();
  void fix(int flow, double rate);

  std::vector<Flow> flows_;
  std::vector<Link> links_;
  std::vector<int> joined_flows_;
  std::vector<int> joined_links_;
};

}  // namespace tributary::plan
