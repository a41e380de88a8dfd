#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <vector>

#include "core/stopwatch.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/watched_files.h"
#include "train/executor/gradients.h"
#include "train/executor/step_trace.h"
#include "train/metrics/console.h"
#include "train/metrics/event_file.h"
#include "train/run/json_lines.h"
#include "train/run/run_directory.h"
#include "train/run/stop_request.h"
#include "train/run/train_state.h"
#include "train/start/session.h"
#include "train/validation/validate.h"

namespace tributary::train {

struct TakenStep;
struct ComputedStep;  // of do_step.cpp: a step after its update

/// The steps of one run, from the state that it starts or resumes with.
class Loop {
 public:
  /// `files`: what the checkpoints are written through
  Loop(Session& session, RunDirectory run, CheckpointWriter& checkpoints, WatchedFiles& files,
       TrainState state, double peak_flops, std::ostream& out);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  enum class End { kDone, kNoGain, kTerminated, kNonFinite, kBadData };
  /// Steps until run.steps, validations without a gain, a signal, too many steps skipped in a row,
  /// or data beyond a limit; then the last step that was done is saved. A signal ends the run after
  /// the step whose gradients are not complete yet.
  [[nodiscard]] End run(const StopRequest& stop);

  [[nodiscard]] const TrainState& state() const { return state_; }
  /// Where this rank's loader stood behind the steps that were done.
  [[nodiscard]] data::LoaderState loader_state() const;
  /// Why the data ended the run; empty when they did not.
  [[nodiscard]] const std::string& data_refusal() const { return data_refusal_; }
  /// The validation at the end of the run; null when the run did not get there.
  [[nodiscard]] const std::optional<ValidationResult>& final_result() const { return final_; }
  [[nodiscard]] std::string last_checkpoint() const;
  /// Wall time of all parts of the run so far.
  [[nodiscard]] double wall_seconds() const;

 private:
  /// Null when the data ended the run: then the step was not done.
  [[nodiscard]] std::optional<StepMetrics> do_step(const StopRequest& stop);
  /// Draws the samples of a step and cuts them into microbatches; where a module encodes ahead,
  /// also those of the next one. collective: over all ranks
  [[nodiscard]] std::unique_ptr<TakenStep> take();
  /// Draws the samples of a step anew, whose pixels turned out bad after they were drawn.
  /// collective: over all ranks where samples are passed on
  [[nodiscard]] std::unique_ptr<TakenStep> take_again(const TakenStep& taken);
  /// Lets go the features of batches that are trained on.
  void end_flow(std::int64_t first_index);
  /// Computes gradients, the sums over all ranks and the update. Learns whether any rank was asked
  /// to stop. collective: over all ranks
  [[nodiscard]] ComputedStep compute(const TakenStep& taken, const StopRequest& stop);
  /// Sums up what the step did and cost. collective: over all ranks
  [[nodiscard]] StepMetrics account(const TakenStep& taken, ComputedStep step);
  [[nodiscard]] bool leads() const { return session_.leads(); }
  /// Tells the watch of the ranks, and a fault drill, what this rank is doing.
  void enter(mesh::Section section) const;
  /// Returns what tells the watch, and a fault drill, that the next action of the step begins.
  [[nodiscard]] std::function<void()> action_observer() const;
  void record(StepMetrics metrics);
  /// Writes the trace of the last step, where this process took one. collective: over all ranks
  void write_trace() const;
  /// Whether any rank was asked to stop. collective: over all ranks
  [[nodiscard]] bool is_asked(const StopRequest& stop) const;
  [[nodiscard]] std::function<bool()> asker(const StopRequest& stop) const;
  /// Returns the score by which checkpoints are compared; null when it was stopped.
  [[nodiscard]] std::optional<double> validate_now(bool is_last, const StopRequest& stop);
  /// Counts validations in a row whose score is no gain over the best one.
  void note_score(double score);
  [[nodiscard]] bool lacks_gain() const;
  void save(std::optional<double> score);

  Session& session_;
  RunDirectory run_;
  TrainState state_;
  double peak_flops_;
  double wall_before_;
  std::int64_t saved_step_;  // of the newest checkpoint of this part of the run
  std::string data_refusal_;
  Stopwatch wall_;
  RankTimes last_times_;  // of the last step
  std::optional<ValidationResult> final_;
  std::optional<JsonLines> metrics_file_;  // of rank 0
  std::optional<JsonLines> shapes_file_;   // of the rank that leads a replica
  std::string shapes_;                     // its line of the step under way
  bool stops_ = false;                     // some rank was asked to stop before the step's sums
  // Where a module encodes ahead: the step after the one under way, and the features of the next
  // step, which need what that has taken.
  std::unique_ptr<TakenStep> next_;
  std::unique_ptr<FeatureExchange> ready_;
  Console console_;
  std::optional<EventFile> events_;  // with metrics.tensorboard
  CheckpointWriter& checkpoints_;
  WatchedFiles& files_;
};

}  // namespace tributary::train
