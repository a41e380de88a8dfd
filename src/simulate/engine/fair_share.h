#pragma once

#include <span>
#include <vector>

#include "simulate/program/step_load.h"

namespace tributary::simulate {

/// Shares links among the flows on them, max-min fair: no flow can get more without taking from one
/// that has no more than it. A flow that meets no link on which too much is wanted goes as if it
/// were alone, to the bit. Rates follow from the flows that are there and the links, to the bit:
/// neither from their numbers nor from the order in which flows came.
///
/// units:  bytes per nanosecond
/// source: Bertsekas and Gallager 1992, "Data networks" section 6.5.2 (progressive filling)
class FairShare {
 public:
  /// shape: routes of all flows that there can be; they must outlive this
  FairShare(const std::vector<double>& capacity, const std::vector<const Route*>& routes);

  /// Adds a flow, or removes it. Rates are those of before until settle().
  void add(int flow);
  void remove(int flow);
  /// Shares the links anew that flows have come to or left; returns the flows whose rates may have
  /// changed, each once: those that came, and those that are joined to them, or to one that left,
  /// by links on which more is wanted than they have.
  ///
  /// cost: O(flows * links of a flow) for each group of joined ones where all links are full at one
  ///       level; else that for each round in which rates grow, of which each fills a link or
  ///       brings a flow to its own limit
  std::span<const int> settle();
  [[nodiscard]] double rate(int flow) const { return flows_[flow].rate; }

 private:
  struct Flow {
    std::span<const LinkUse> links = {};
    double alone = 0;  // rate that it has when alone
    double rate = 0;
    bool is_there = false;
    bool joined = false;  // in settle(): has its rate
    int fixed_in = 0;     // round of fill(); 0: may still grow
  };
  /// By what decides rates, so that sums do not depend on how flows are numbered.
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
    double level = 0;      // rate that all flows on it have when they fill it
    int first = 0;         // of its flows in on_link_, ascending
    int flows = 0;         // how many these are
    bool full = false;     // more is wanted than it has; as of settle()
    bool changed = false;  // since settle()
    bool joined = false;   // to the group that is being shared
    // While rates grow:
    double left = 0;
    double full_at = 0;  // level; infinity: no flow on it may grow
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
  std::vector<OnLink> on_link_;     // a link has room for all that may come to it
  std::vector<int> changed_links_;  // since settle()
  std::vector<int> new_flows_;      // likewise
  std::vector<int> settled_;        // what settle() gives
  std::vector<int> regrouped_;      // links, of settle(), that are full or were
  std::vector<int> joined_links_;   // full ones of one group that hangs together
};

}  // namespace tributary::simulate
