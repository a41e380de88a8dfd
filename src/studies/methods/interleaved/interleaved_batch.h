#pragma once

#include <span>
#include <vector>

#include "studies/methods/batch_runner.h"
#include "studies/methods/interleaved/interleaved_order.h"
#include "studies/methods/layer_shares.h"

namespace tributary::studies {

/// A batch on pipelines of both modules, with the same degrees for each.
class InterleavedBatch {
 public:
  /// Empty rounds pad their number to a multiple of `multiple`: packs may be more than planned.
  InterleavedBatch(BatchRunner& runner, std::size_t batch, const Degrees& degrees,
                   std::int64_t rounds, std::int64_t multiple, Deal how);

  /// Lower bound in seconds: work on the fullest stage of any replica, and exposed reductions.
  /// `shares` are those of the virtual stages.
  [[nodiscard]] double min_seconds(std::span<const StageShare> shares) const;
  [[nodiscard]] double sync_seconds() const { return sync_; }

  /// Nanoseconds of all passes of a replica, in the layout of InterleavedOrder.
  [[nodiscard]] std::vector<std::int64_t> passes(std::int64_t replica,
                                                 std::span<const StageShare> shares) const;
  /// The same in the layout of 1F1B: [stages, rounds].
  [[nodiscard]] std::vector<PassSeconds> times(std::int64_t replica,
                                               std::span<const StageShare> shares) const;

  [[nodiscard]] std::int64_t rounds() const { return rounds_; }
  [[nodiscard]] std::int64_t replicas() const { return degrees_.dp; }
  /// Seconds of all layers of a module: [rounds] of a replica.
  [[nodiscard]] std::vector<double> encoder_rounds(std::int64_t replica) const;
  [[nodiscard]] std::vector<double> backbone_rounds(std::int64_t replica) const;
  /// Device seconds of all work.
  [[nodiscard]] double busy() const;

 private:
  [[nodiscard]] std::size_t at(std::int64_t replica, std::int64_t round) const {
    return static_cast<std::size_t>(round * degrees_.dp + replica);
  }

  const BatchRunner& runner_;
  Degrees degrees_;
  std::int64_t rounds_;
  std::vector<double> encoder_;   // [rounds, replicas] seconds
  std::vector<double> backbone_;  // [rounds, replicas] seconds
  double sync_;
};

}  // namespace tributary::studies
