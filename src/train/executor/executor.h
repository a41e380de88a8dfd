#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "core/stopwatch.h"
#include "mesh/health/health.h"
#include "model/model.h"
#include "parallel/stage/stage_link.h"
#include "parallel/weight_queue.h"
#include "schedule/order/action.h"
#include "train/executor/collate.h"
#include "train/metrics/step_metrics.h"
#include "train/metrics/stream_clock.h"

namespace tributary::train {

/// What an executor must know of its step.
struct ExecutorOptions {
  std::int64_t targets = 1;                       // target tokens of the global batch
  std::int64_t most_logits = model::kMostLogits;  // of one chunk of the head (sum_loss)
  int sources = 1;
  c10::Device device = c10::kCPU;
  /// Collates a microbatch of this rank's replica.
  std::function<Microbatch(int microbatch, Fields fields)> collate;
  std::function<void(mesh::Section)> on_section = {};  // before each pass
  std::function<void()> on_action = {};                // before each action
};

/// When one pass ran, in seconds of now_seconds(): on a device by the stream that computes.
struct PassTimes {
  schedule::Action action;
  double reached = 0;  // the rank had done everything before it, collating too
  double start = 0;    // what it waited for was there
  double end = 0;
  double waited = 0;  // the part that the host waited for collectives; near 0 on a device
};

/// What one rank saw of a step.
struct Execution {
  std::vector<SourceLoss> by_source;  // of the microbatches whose loss this rank computed
  PhaseSeconds seconds;               // data (collating), forward, backward
  double busy = 0;                    // [s] passes, without what they waited for
  std::vector<double> microbatches;   // [s] passes of each, without waits inside them either
  std::vector<PassTimes> passes;      // in their order
  double began = 0;                   // as PassTimes
  double reduced = 0;                 // likewise: when finish() was called
  double wall = 0;                    // [s] from the first action to the last
  int in_flight = 0;                  // max chunk activations kept at once
};

/// Runs the action list of one rank: forwards and backwards of its virtual stages, what passes
/// between stages, and the reduction of a stage's gradients after its last weight gradient.
///
/// The lists of all ranks of a replica come from one schedule, so that each message is awaited; the
/// shapes follow from the microbatch. Gradients add up in the units' shards in data order, whatever
/// the order of the schedule.
class Executor {
 public:
  Executor(model::Model& model, const ExecutorOptions& options);
  /// collective: as the model's stages; messages over pp
  void run(std::span<const schedule::Action> actions);
  /// Returns what the rank saw. Call it once, after all work of the step's gradients is dispatched.
  /// stream: the host waits until the current one has come here
  [[nodiscard]] Execution finish();

 private:
  /// A virtual stage and a microbatch.
  using Place = std::pair<int, int>;
  /// One pass between its forward and its backward.
  struct Pass {
    at::Tensor input;   // a leaf, or undefined at the first stage
    at::Tensor output;  // with the graph between the two
    parallel::WeightQueue weights;
  };
  struct Incoming {
    at::Tensor values;
    mesh::Pending message;
  };

  /// Where the last backward of each chunk is; the number of actions where it has none.
  /// shape: [chunks]
  [[nodiscard]] std::vector<std::size_t> last_backwards(
      std::span<const schedule::Action> actions) const;
  void do_action(const schedule::Action& action);
  void forward(Place place);
  void backward(Place place, bool puts_weights_off);
  void backward_weights(Place place);
  /// A pass as the clocks marked it.
  struct MarkedPass {
    schedule::Action action;
    std::size_t reached = 0;  // marks
    std::size_t start = 0;
    std::size_t end = 0;
    double waited = 0;  // for collectives: until the pass began, then within it
  };
  [[nodiscard]] MarkedPass begin_pass(std::size_t reached);
  void end_pass(MarkedPass pass);
  void count(const MarkedPass& pass, const std::vector<double>& times);
  /// Phases by the stream: where it did not compute before a pass, it waited for the pass's data.
  [[nodiscard]] PhaseSeconds phases_of_stream() const;
  [[nodiscard]] at::Tensor sum_loss(Place place, const at::Tensor& hidden);
  void post_receive(parallel::Passed what, Place from, Place to);
  void send(parallel::Passed what, Place from, Place to);
  void hand_over(parallel::Passed what, Place from, Place to);
  [[nodiscard]] at::Tensor take(parallel::Passed what, Place place);
  [[nodiscard]] std::map<Place, Incoming>& incoming(parallel::Passed what);
  /// Takes what a pass has left for its neighbour.
  [[nodiscard]] at::Tensor give(parallel::Passed what, Place place);
  void reduce_gradients(int stage);
  [[nodiscard]] const Microbatch& microbatch(int index);
  /// Whether something at or before the stage trains.
  [[nodiscard]] bool has_backward(int stage) const { return stage >= first_trained_; }

  model::Model& model_;
  const parallel::Layout& layout_;
  ExecutorOptions options_;
  std::vector<int> own_;                                    // virtual stage of each chunk
  std::vector<bool> trains_;                                // [virtual stages]
  int first_trained_ = 0;                                   // virtual stage
  std::map<int, std::pair<Microbatch, int>> microbatches_;  // and forwards yet to come
  std::map<Place, Pass> passes_;
  std::map<Place, Incoming> activations_;  // by the stage that takes them
  std::map<Place, Incoming> gradients_;
  std::map<Place, at::Tensor> outputs_;  // to pass on
  std::map<Place, at::Tensor> input_gradients_;
  std::map<std::pair<parallel::Passed, int>, std::deque<mesh::Pending>> sends_;  // by far stage
  StreamClock clock_;
  std::vector<MarkedPass> marked_;
  Execution seen_;
  schedule::Action action_;  // under way
  Stopwatch watch_;
  int kept_ = 0;
};

}  // namespace tributary::train
