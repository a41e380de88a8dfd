#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "plan/chains/chain_costs.h"
#include "plan/problem/planning_problem.h"

namespace tributary::plan {

/// How a chain's layers are cut and run, whatever its stages and replicas.
struct ChainForm {
  std::size_t encoder = 0;  // index into encoders_of; one past the end: the backbone
  std::uint64_t apart = 0;  // bit i: encoder i has ranks of its own
  std::int64_t tp = 1;
  std::int64_t cp = 1;
  std::int64_t ulysses = 1;
  std::int64_t ep = 1;
  config::RecomputePlan recompute = config::RecomputePlan::kNone;
  InlineRecompute inside = {};  // of the encoders inside the backbone

  [[nodiscard]] std::int64_t ranks() const { return tp * cp * ulysses; }
  /// The min number of shards: ep regroups shards and parts of a sequence, and needs its ranks.
  [[nodiscard]] std::int64_t shards() const {
    return std::max<std::int64_t>(1, ep / (cp * ulysses));
  }
  friend auto operator<=>(const ChainForm&, const ChainForm&) = default;
};

/// Min times of the units of a chain: its two ends, and the blocks between them.
struct UnitTimes {
  double first = 0;  // [ns]
  double last = 0;
  double block = std::numeric_limits<double>::infinity();  // min over the blocks
};

/// Times and bytes of one microbatch in a chain, all its units.
struct ChainWork {
  double scale = 1;       // factor on the times and kept bytes below: of a larger microbatch
  double forward = 0;     // [ns] including exposed communication
  double backward = 0;    // [ns] both gradients
  double weight = 0;      // [ns] the part of backward for weight gradients
  double compute = 0;     // [ns] without communication; a lower bound like all fields below,
                          // since many microbatches may have no images
  double exposed = 0;     // [ns] communication that compute does not hide
  double path = 0;        // [ns] the part of compute in forward and input gradients
  double holding = 0;     // [bytes ns] kept bytes times the time until later units are done
  double kept = 0;        // [bytes]
  double first_kept = 0;  // the part of `kept` of the first unit
  double last_kept = 0;
  double peak = 0;        // [bytes] on top of `kept`, while a unit runs
  double first_time = 0;  // [ns] of the first unit, forward and backward
  double last_time = 0;
  double block_forward = 0;  // [ns] of a mean block
  double block_backward = 0;
  double boundary = 0;  // [bytes]
  UnitTimes unit_compute = {};
  UnitTimes unit_exposed = {};
  std::size_t point = 0;

  [[nodiscard]] double total() const { return forward + backward; }
};

/// The state of a chain, before it is cut into stages and shards.
struct ChainState {
  double parameters = 0;  // [bytes] of each rank of a replica with one stage
  double gradients = 0;
  double optimizer = 0;
  double block_parameters = 0;  // of the largest unit that is not an end
  double first = 0;             // [bytes] all of the first unit
  double last = 0;
  double update = 0;      // [ns] of the optimizer on one rank
  double each_stage = 0;  // [ns] of each microbatch on each stage, not part of ChainWork
  double process = 0;     // [bytes] of a process, not in tensors
};

/// Costs of forms for mean microbatches, on a grid of the number of microbatches. A number between
/// two points uses the lower one: fewer microbatches cost no more in all.
class ChainTables {
 public:
  explicit ChainTables(const PlanningProblem& problem);

  /// Whether some samples have input for an encoder while others have none.
  [[nodiscard]] bool has_idle_samples(const ChainForm& form);
  /// The work of one microbatch when the mean batch is dispatched to `microbatches` of them.
  [[nodiscard]] ChainWork work(const ChainForm& form, std::int64_t microbatches);
  /// The same at every point of the grid, for searches that ask often.
  struct Profile {
    std::vector<double> compute;          // [grid] ns of one microbatch
    std::vector<double> path;             // [grid] ns of it that is serial within a microbatch
    std::vector<double> exposed;          // [grid] ns of exposed communication
    std::vector<double> kept;             // [grid] bytes
    std::vector<double> holding;          // [grid] bytes ns
    std::vector<UnitTimes> unit_compute;  // [grid] of one microbatch
    std::vector<UnitTimes> unit_exposed;  // [grid]
  };
  [[nodiscard]] Profile profile(const ChainForm& form);
  [[nodiscard]] std::size_t point_below(std::int64_t microbatches) const {
    return point_below_[std::min(microbatches, problem_.global_samples())];
  }
  [[nodiscard]] double grid(std::size_t point) const { return static_cast<double>(grid_[point]); }
  /// Lower bound [ns] on the slowest of `stages` stages with the best cut, before ChainWork::scale.
  [[nodiscard]] double slowest_stage(const ChainForm& form, const ChainWork& work,
                                     std::int64_t stages);
  /// On several stages; tied units have copies of their own.
  [[nodiscard]] const ChainState& state(const ChainForm& form);
  /// Lower bound on the state of any plan of the form, on one stage or on several.
  [[nodiscard]] const ChainState& min_state(ChainForm form, std::int64_t stages);
  /// State of a rank that holds all units on one stage, cut into `shards` shards.
  [[nodiscard]] const cost::StageState& state_on_one_stage(ChainForm form, std::int64_t shards);
  /// Communication [ns] of the whole batch in one pass: no number of microbatches has less in all.
  [[nodiscard]] double min_exposed(const ChainForm& form);
  /// What the largest samples need: no cut and no schedule splits a sample over replicas.
  struct LargestSamples {
    double path = 0;  // [ns] mean over the batches: forward and back through all units
    double kept = 0;  // [bytes] max over the batches
  };
  [[nodiscard]] const LargestSamples& largest_samples(const ChainForm& form);
  /// Compute [ns] of a pass with almost no input.
  [[nodiscard]] double smallest_pass(const ChainForm& form);
  [[nodiscard]] std::int64_t units(std::size_t encoder) const { return units_[encoder]; }
  /// The size of the largest sample over that of the mean one, in tokens or in the media that the
  /// chain may encode; for the backbone images and sound count together.
  [[nodiscard]] double largest_sample(const ChainForm& form);

 private:
  struct Point {
    ChainWork work;
    std::vector<double> until;    // [units + 1] prefix sums of time
    std::vector<double> slowest;  // [stages] 0: not known yet
  };
  /// Min times of a stage, or of a part of its work.
  struct MinTimes {
    double compute = 0;  // [ns]
    double exposed = 0;
    double path = 0;
  };
  struct Table {
    std::unique_ptr<ChainCosts> costs;
    std::vector<std::unique_ptr<Point>> points;                          // [grid]
    std::array<std::vector<MinTimes>, cost::kAllMedia.size()> of_media;  // [grid so far] for all
                                                                         // of it in a mean batch
    bool is_backbone = false;
    double largest_sample = 1;
    std::vector<cost::Media> idle = {};  // media that some microbatches may not have
    [[nodiscard]] bool has_inline_idle() const { return is_backbone && !idle.empty(); }
    ChainState state;
    std::optional<ChainState> on_one;                  // min_state() on one stage
    std::optional<ChainState> on_stages;               // min_state() on several stages
    std::map<std::int64_t, cost::StageState> sharded;  // on one stage, by number of shards
    double exposed = -1;
    std::optional<LargestSamples> largest;
  };
  [[nodiscard]] Table& table_of(const ChainForm& form);
  [[nodiscard]] Point& point_of(Table& table, std::size_t index);
  [[nodiscard]] static MinTimes min_times(const cost::StageCost& cost);
  /// The first unit of a backbone, where some microbatches may have no images or no sound.
  [[nodiscard]] MinTimes min_first(Table& table, std::size_t index) const;
  /// All input of one medium of a mean batch in that unit, in the best number of passes so far.
  [[nodiscard]] const MinTimes& min_of(cost::Media media, Table& table, std::size_t index) const;

  const PlanningProblem& problem_;
  cost::MicrobatchShape batch_;
  SampleSpread spread_;
  bool may_share_table_ = false;          // by head and embedding on different stages
  std::vector<std::int64_t> grid_;        // numbers of microbatches, ascending from 1
  std::vector<std::size_t> point_below_;  // [global samples + 1]
  std::vector<std::int64_t> units_;       // [encoders, backbone]
  std::map<ChainForm, Table> tables_;
  std::array<std::pair<const ChainForm*, Table*>, 16> recent_ = {};  // cache of tables_
};

/// A choice that has only the form's chain, with one stage and one replica.
[[nodiscard]] PlanChoice choice_of(const PlanningProblem& problem, const ChainForm& form);

}  // namespace tributary::plan
