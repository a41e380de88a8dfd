#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tributary::plan {

/// Times of one microbatch's passes on one virtual stage, exposed communication included.
struct PassCosts {
  std::int64_t forward = 0;          // [ns]
  std::int64_t input_gradient = 0;   // [ns]
  std::int64_t weight_gradient = 0;  // [ns]
  std::int64_t boundary = 0;         // [bytes] sent to the next stage

  [[nodiscard]] std::int64_t backward() const { return input_gradient + weight_gradient; }
};

/// Bytes that these passes keep.
struct PassBytes {
  std::int64_t kept = 0;
  std::int64_t after = 0;  // between input gradient and weight gradient
  std::int64_t peak = 0;   // on top, during backward
  std::int64_t ahead = 0;  // on top, during forward

  void raise_to(const PassBytes& other) {
    kept = std::max(kept, other.kept);
    after = std::max(after, other.after);
    peak = std::max(peak, other.peak);
    ahead = std::max(ahead, other.ahead);
  }
};

struct StagePass {
  PassCosts costs = {};
  PassBytes bytes = {};
};

/// The passes of a module's replicas. Microbatches of one size share a pass on stages of one kind.
struct ModulePasses {
  std::vector<std::int64_t> stand_for = {};  // [replicas that are run] how many each represents
  std::vector<std::size_t> kind_of = {};     // [virtual stages]
  std::vector<std::size_t> first_of = {};    // [microbatches, replicas] index into passes
  std::vector<StagePass> passes = {};        // [sizes, kinds]
  std::int64_t mean_boundary = 0;            // [bytes] of the microbatches of a joined module

  [[nodiscard]] std::size_t replicas() const { return stand_for.size(); }
  /// The passes of a microbatch on a virtual stage, by replica.
  class OfReplicas {
   public:
    OfReplicas(const StagePass* passes, const std::size_t* first_of)
        : passes_(passes), first_of_(first_of) {}
    const StagePass& operator[](std::size_t replica) const { return passes_[first_of_[replica]]; }

   private:
    const StagePass* passes_;
    const std::size_t* first_of_;
  };
  [[nodiscard]] OfReplicas at(int virtual_stage, int microbatch) const {
    return {passes.data() + kind_of[virtual_stage], &first_of[microbatch * replicas()]};
  }
};

/// Joins all replicas of a colocated module into one with `microbatches` microbatches; those after
/// its own passes are empty. The backbone waits until all replicas have encoded, and the step until
/// all have gone back, so the slowest replica counts, forward and backward separately. Each pass
/// has the max bytes of any replica and the mean boundary.
///
/// shape: passes has one stage
[[nodiscard]] ModulePasses join_replicas(const ModulePasses& passes, int microbatches);

}  // namespace tributary::plan
