#pragma once

#include <array>
#include <optional>
#include <vector>

#include "plan/sharing/share_options.h"

namespace tributary::plan {

/// Places the modules of a stage where they slow each other, or where memory is scarce, so that the
/// slowest one ends as early as possible.
///
/// Branch and bound over options and blocks, from the widest to single devices. Each placement
/// found tightens the limit that every device must keep.
class SharedPlacer {
 public:
  SharedPlacer(const SharingProblem& problem, const ShareOptions& options);

  struct Answer {
    std::optional<Nanoseconds> value = {};  // null: nothing within the limit was found
    bool is_proven = true;                  // false: the budget of steps ran out
  };
  /// The min time up to `max`; `min` is a lower bound on every placement.
  [[nodiscard]] Answer solve(ModuleSet modules, Nanoseconds min, Nanoseconds max,
                             std::int64_t steps);
  /// The placement of the last answer with a value.
  [[nodiscard]] const std::vector<PlacedModule>& placed() const { return best_; }
  [[nodiscard]] std::int64_t steps() const { return steps_; }

 private:
  struct Block {
    std::int64_t units = 0;
    std::int64_t memory = 0;
    DeviceTraffic traffic = {};
  };
  using Blocks = std::array<Block, kMaxSharingDevices>;

  void search(int width, std::size_t position, ModuleSet rest, std::int64_t free, Blocks& blocks);
  void try_shares(int width, std::size_t position, ModuleSet rest, std::int64_t free,
                  Blocks& blocks);
  [[nodiscard]] bool put(Block& block, int module, int width, std::int64_t share) const;
  /// Whether all modules placed on a block may still end within the limit.
  [[nodiscard]] bool may_end(const Block& block, std::int64_t device) const;
  [[nodiscard]] bool may_fit(int width, ModuleSet rest, std::int64_t free) const;
  void keep(const Blocks& blocks);
  [[nodiscard]] bool is_over() const { return found_ <= min_ || steps_ >= last_step_; }

  const SharingProblem& problem_;
  const ShareOptions& options_;
  std::int64_t max_ = 0;  // nothing slower is searched for
  std::int64_t min_ = 0;
  std::int64_t found_ = 0;  // value of the best placement
  std::int64_t last_step_ = 0;
  std::int64_t steps_ = 0;
  std::vector<int> order_;
  std::vector<PlacedModule> placed_;
  std::vector<PlacedModule> best_;
};

}  // namespace tributary::plan
