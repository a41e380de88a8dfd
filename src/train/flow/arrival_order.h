#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "config/run/run_config.h"
#include "core/sample_shape.h"
#include "data/loader/loader_state.h"
#include "data/sample.h"
#include "memory/plan_log/plan_log_file.h"
#include "train/flow/choose_arrivals.h"

namespace tributary::data {
class Loader;
}

namespace tributary::train {

struct RunDirectory;
struct Session;
struct TakenStep;
struct TrainState;

/// Makes steps of the samples whose features have come (pool.order arrival). The loader hands out
/// batches in the order of the data, pool.ahead of them before they are due; a step takes as many
/// samples as a batch has. Each sample is trained on once, in its own step or at most pool.ahead -
/// 1 steps before or after it.
///
/// Rank 0 chooses, by what the pool has, and keeps the choice in the plan log before any rank sees
/// it; or it takes the choice of a log (pool.replay). All ranks then do the same, so that the bits
/// depend only on the log.
class ArrivalOrder {
 public:
  explicit ArrivalOrder(const config::RunConfig& config);

  /// Reads the log of pool.replay, on rank 0, before the run directory is changed.
  ///
  /// errors: Fault::kInput when it cannot be read, does not reach to the end of the run or takes
  ///         samples behind it, or is the run's own
  void read_replayed(const Session& session, const RunDirectory& run);
  /// Goes on from a state. errors: those of memory::PlanLogFile
  void open(const Session& session, const RunDirectory& run, const TrainState& state);
  /// Learns of a batch. Called by a thread of the loader, batch after batch.
  void note(std::int64_t first_index, std::span<const SampleShape> shapes,
            std::span<const std::int32_t> replica_of);
  /// Samples behind the state of open() that were trained on before, ascending.
  [[nodiscard]] std::span<const std::int64_t> trained_ahead() const { return trained_ahead_; }

  /// Takes a step, as take_step() does.
  ///
  /// units:  `step` counts from 0
  /// errors: as take_step; Fault::kInput when a log to replay is of another run
  /// collective: over all ranks
  [[nodiscard]] TakenStep take(const Session& session, std::int64_t step);
  /// The step is done. Returns the batches, by their first samples, that are trained on as a whole
  /// and all before them, each once.
  [[nodiscard]] std::vector<std::int64_t> take_finished();
  /// How many samples of the step are of another batch.
  [[nodiscard]] std::int64_t out_of_turn() const;
  /// Where the loader goes on behind the steps that were done.
  [[nodiscard]] data::LoaderState state(const data::Loader& loader) const;

 private:
  /// A batch as it was dealt.
  struct Dealt {
    std::vector<Tokens> tokens;            // [samples] by their headers
    std::vector<std::int32_t> replica_of;  // [samples]
  };
  /// A batch that was handed out, and is not trained on as a whole.
  struct OpenBatch {
    data::LoaderState before;  // of the loader
    Dealt dealt;
    std::set<std::int64_t> left;  // ids that were not trained on
  };

  /// Takes batches from the loader. False: a rank refuses the step.
  /// collective: over all ranks
  [[nodiscard]] bool hand_out(const Session& session, std::int64_t step, TakenStep& taken);
  /// The microbatches of all replicas. collective: over all ranks
  [[nodiscard]] memory::PlanRecord agree(const Session& session, std::int64_t step);
  [[nodiscard]] memory::PlanRecord choose(const Session& session, std::int64_t step) const;
  /// The record of the log, which is refused where it does not fit.
  [[nodiscard]] memory::PlanRecord replay(std::int64_t step) const;
  void fill(const Session& session, TakenStep& taken);

  config::RunConfig config_;
  std::map<std::uint64_t, memory::PlanRecord> replayed_;  // by step, on rank 0
  std::int64_t records_ = 1;                              // of the data, in an epoch
  std::int64_t end_ = 0;                                  // batches of the run
  std::int64_t handed_out_ = 0;                           // batches
  std::vector<std::int64_t> trained_ahead_;
  std::map<std::int64_t, OpenBatch> open_;               // by first sample
  std::map<std::int64_t, data::EncodedSample> samples_;  // of this replica, not trained on
  memory::PlanRecord current_;
  std::optional<memory::PlanLogFile> log_;  // of rank 0

  std::mutex mutex_;                     // guards dealt_
  std::map<std::int64_t, Dealt> dealt_;  // not handed out, by first sample
};

}  // namespace tributary::train
