#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "mesh/transport/group.h"

namespace tributary::train {

/// Numbers of a step that the ranks share in one collective instead of one each.
///
/// A slot is a number of this rank that `share` replaces by that of all ranks. All ranks name the
/// same slots in the same order; what a slot refers to must stay where it is until `share`.
class StepSums {
 public:
  /// The sum, added in the order of ranks; a rank that does not count adds nothing.
  void sum(double& value, bool counts = true);
  void sum(std::int64_t& value, bool counts = true);
  void largest(double& value);
  void largest(std::int64_t& value);
  /// The numbers of all ranks in their order. shape: of_ranks becomes [ranks]
  void each(std::int64_t value, std::vector<std::int64_t>& of_ranks);
  /// Calls `next` as soon as the slots named before it are known.
  void then(std::function<void()> next);

  /// collective: over the group, whatever is in the slots
  /// cost: each rank sends 8 bytes a slot to every other
  void share(const mesh::Group& ranks);

 private:
  using Column = std::vector<std::int64_t>;  // a slot's bits on each rank
  void add(std::int64_t bits, std::function<void(const Column&)> take);

  std::vector<std::int64_t> own_;  // [slots] bits
  struct Step {
    bool has_slot = false;
    std::function<void(const Column&)> take;
  };
  std::vector<Step> steps_;
};

}  // namespace tributary::train
