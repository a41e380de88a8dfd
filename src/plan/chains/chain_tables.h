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
#include "plan/problem/sample_spread.h"

namespace tributary::plan {

/// How a chain's layers are cut and run, whatever its stages and replicas.
struct ChainForm {
  std::size_t encoder = 0;  // of encoders_of; behind the last one: the backbone
  std::uint64_t apart = 0;  // bit i: encoder i has ranks of its own
  std::int64_t tp = 1;
  std::int64_t cp = 1;
  std::int64_t ulysses = 1;
  std::int64_t ep = 1;
  config::RecomputePlan recompute = config::RecomputePlan::kNone;
  InlineRecompute inside = {};  // of the encoders inside the backbone

  [[nodiscard]] std::int64_t ranks() const { return tp * cp * ulysses; }
  /// The fewest with which ep, a view of them and of the parts of a sequence, has its ranks.
  [[nodiscard]] std::int64_t shards() const {
    return std::max<std::int64_t>(1, ep / (cp * ulysses));
  }
  friend auto operator<=>(const ChainForm&, const ChainForm&) = default;
};

/// A time of the units of a chain: its ends, and what is between them.
struct UnitTimes {
  double first = 0;  // [ns]
  double last = 0;
  double block = std::numeric_limits<double>::infinity();  // the least
};

/// Times and bytes of one microbatch in a chain, all its units.
struct ChainWork {
  double scale = 1;       // of the times and kept bytes below: they are of a larger microbatch
  double forward = 0;     // [ns] with what communication exposes
  double backward = 0;    // [ns] both gradients
  double weight = 0;      // [ns] of it the weight gradient
  double compute = 0;     // [ns] without communication; as all below at least, as many
                          // microbatches may have no images
  double exposed = 0;     // [ns] beside it
  double path = 0;        // [ns] of it forward and the gradients of the inputs
  double holding = 0;     // [bytes ns] kept while later units work on the microbatch
  double kept = 0;        // [bytes]
  double first_kept = 0;  // of it by the first unit
  double last_kept = 0;
  double peak = 0;        // [bytes] more than what is kept, while a unit runs
  double first_time = 0;  // [ns] of the first unit, both ways
  double last_time = 0;
  double block_forward = 0;  // [ns] of a mean block
  double block_backward = 0;
  double boundary = 0;  // [bytes]
  UnitTimes unit_compute = {};
  UnitTimes unit_exposed = {};
  std::size_t point = 0;

  [[nodiscard]] double total() const { return forward + backward; }
};

/// What a chain holds, before it is cut into stages and shards.
struct ChainState {
  double parameters = 0;  // [bytes] of the ranks of one replica's one stage, each
  double gradients = 0;
  double optimizer = 0;
  double block_parameters = 0;  // of the largest unit but the ends
  double first = 0;             // [bytes] all of the first unit
  double last = 0;
  double update = 0;      // [ns] of the optimizer, on one rank
  double each_stage = 0;  // [ns] of each microbatch on each stage, not in its work
  double process = 0;     // [bytes] of a rank beside tensors
};

/// Costs of forms at mean microbatches, on a grid of the number of microbatches: a batch dealt over
/// somewhat fewer costs no more in all.
class ChainTables {
 public:
  explicit ChainTables(const PlanningProblem& problem);

  /// Some samples have something for an encoder, others have nothing.
  [[nodiscard]] bool has_idle_samples(const ChainForm& form);
  /// The mean batch over so many microbatches.
  [[nodiscard]] ChainWork work(const ChainForm& form, std::int64_t microbatches);
  /// The same at every point of the grid, for many questions.
  struct Profile {
    std::vector<double> compute;          // [grid] ns of one microbatch
    std::vector<double> path;             // [grid] ns of it that no other microbatch can hide
    std::vector<double> exposed;          // [grid] ns beside it
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
  /// Time of the slowest of so many stages at least, in the best cut; unscaled.
  [[nodiscard]] double slowest_stage(const ChainForm& form, const ChainWork& work,
                                     std::int64_t stages);
  /// On several stages, units that are tied apart.
  [[nodiscard]] const ChainState& state(const ChainForm& form);
  /// What no plan of the form holds less than, on one stage or on several.
  [[nodiscard]] const ChainState& least_state(ChainForm form, std::int64_t stages);
  /// What a rank holds where all units are on one stage, cut into so many shards.
  [[nodiscard]] const cost::StageState& state_on_one_stage(ChainForm form, std::int64_t shards);
  /// Communication of the whole batch in one pass: no microbatches have less in all.
  [[nodiscard]] double least_exposed(const ChainForm& form);
  /// What the largest samples ask: no cut and no schedule splits one sample over replicas.
  struct LargestSamples {
    double path = 0;  // [ns] mean over the batches: once forward and back through all units
    double kept = 0;  // [bytes] the most of any batch
  };
  [[nodiscard]] const LargestSamples& largest_samples(const ChainForm& form);
  /// Compute of a pass with next to nothing in it [ns].
  [[nodiscard]] double smallest_pass(const ChainForm& form);
  [[nodiscard]] std::int64_t units(std::size_t encoder) const { return units_[encoder]; }
  /// The largest sample against the mean one, by its tokens or by what the chain may encode of it:
  /// of the backbone images and sound together.
  [[nodiscard]] double largest_sample(const ChainForm& form);

 private:
  struct Point {
    ChainWork work;
    std::vector<double> until;    // [units + 1] prefix sums of time
    std::vector<double> slowest;  // [stages] 0: not known yet
  };
  /// Of a stage, or of a part of what it does.
  struct LeastTimes {
    double compute = 0;  // [ns]
    double exposed = 0;
    double path = 0;
  };
  struct Table {
    std::unique_ptr<ChainCosts> costs;
    std::vector<std::unique_ptr<Point>> points;                            // [grid]
    std::array<std::vector<LeastTimes>, cost::kAllMedia.size()> of_media;  // [grid so far] of all
                                                                           // of it in a mean batch
    bool is_backbone = false;
    double largest_sample = 1;
    std::vector<cost::Media> idle = {};  // of which some microbatches may have nothing
    [[nodiscard]] bool has_inline_idle() const { return is_backbone && !idle.empty(); }
    ChainState state;
    std::optional<ChainState> on_one;                  // stage, of least_state()
    std::optional<ChainState> on_stages;               // likewise
    std::map<std::int64_t, cost::StageState> sharded;  // on one stage, by shards
    double exposed = -1;
    std::optional<LargestSamples> largest;
  };
  [[nodiscard]] Table& table_of(const ChainForm& form);
  [[nodiscard]] Point& point_of(Table& table, std::size_t index);
  [[nodiscard]] static LeastTimes least_times(const cost::StageCost& cost);
  /// The first unit of a backbone, where some microbatches may have no images, or no sound.
  [[nodiscard]] LeastTimes least_first(Table& table, std::size_t index) const;
  /// All images, or all sound, of a mean batch in that unit, in so many passes or any fewer.
  [[nodiscard]] const LeastTimes& least_of(cost::Media media, Table& table,
                                           std::size_t index) const;

  const PlanningProblem& problem_;
  cost::MicrobatchShape batch_;
  SampleSpread spread_;
  bool may_share_table_ = false;          // of a head and an embedding on different stages
  std::vector<std::int64_t> grid_;        // numbers of microbatches, ascending from 1
  std::vector<std::size_t> point_below_;  // [global samples + 1]
  std::vector<std::int64_t> units_;       // [encoders, backbone]
  std::map<ChainForm, Table> tables_;
  std::array<std::pair<const ChainForm*, Table*>, 16> recent_ = {};  // of tables_
};

/// The choice in which a form stands alone with one stage and one replica.
[[nodiscard]] PlanChoice choice_of(const PlanningProblem& problem, const ChainForm& form);

}  // namespace tributary::plan
