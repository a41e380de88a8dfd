#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/sharing/share_options.h"

namespace tributary::plan {

/// Decides whether modules can run at the same time, each within a limit, on aligned blocks of
/// devices where only share units are scarce.
///
/// From the widest blocks to single devices, each module is placed on a block with room or left for
/// narrower ones. Situations that failed are remembered.
/// cost: bench/plan/sharing_bench
class StagePlacer {
 public:
  StagePlacer(const SharingProblem& problem, const ShareOptions& options);

  /// errors: none; the answer is exact
  [[nodiscard]] bool fits(ModuleSet modules, int limit);
  /// The placement after fits() was true, without times.
  [[nodiscard]] const std::vector<PlacedModule>& placed() const { return placed_; }
  /// The number of placements tried so far.
  [[nodiscard]] std::int64_t steps() const { return steps_; }

 private:
  using Blocks = std::array<std::uint8_t, kMaxSharingDevices>;  // free units of each block

  [[nodiscard]] bool search(int width, int position, ModuleSet rest, int free,
                            const Blocks& blocks);
  [[nodiscard]] bool try_blocks(int width, int position, ModuleSet rest, int free,
                                const Blocks& blocks, int module, int units);
  [[nodiscard]] Blocks halve(int width, const Blocks& blocks) const;
  [[nodiscard]] int blocks_of(int width) const { return devices_ >> width; }

  /// A situation: the number of blocks with each amount of room, and the modules left to place.
  struct Situation {
    std::uint64_t counts[2] = {0, 0};
    std::uint64_t rest = 0;
    friend bool operator==(const Situation&, const Situation&) = default;
  };
  [[nodiscard]] Situation situation_of(int width, int position, ModuleSet rest,
                                       const Blocks& blocks) const;

  /// Situations that failed for the present question.
  class Failures {
   public:
    void clear();
    [[nodiscard]] bool contains(const Situation& situation) const;
    void add(const Situation& situation);

   private:
    struct Entry {
      Situation situation;
      std::uint32_t question = 0;
    };
    [[nodiscard]] std::size_t place_of(const Situation& situation) const;
    std::vector<Entry> entries_ = std::vector<Entry>(1024);
    std::size_t used_ = 0;
    std::uint32_t question_ = 0;
  };

  const ShareOptions& options_;
  int devices_;
  int widths_;
  int share_units_;
  int limit_ = 0;
  std::vector<int> order_;  // modules of the question, the largest first
  std::vector<PlacedModule> placed_;
  Failures failures_;
  std::int64_t steps_ = 0;
};

}  // namespace tributary::plan
