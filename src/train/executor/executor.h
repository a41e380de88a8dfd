#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
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
#include "train/executor/feature_exchange.h"
#include "train/executor/step_schedule.h"
#include "train/metrics/step_metrics.h"
#include "train/metrics/stream_clock.h"

namespace tributary::train {

/// What an executor must know of its step.
struct ExecutorOptions {
  c10::Device device = c10::kCPU;
  int microbatches = 1;       // of the step
  bool forward_only = false;  // the lists hold forwards and what passes between them alone
  /// Returns the scalar that the last stage of the backbone differentiates.
  std::function<at::Tensor(int microbatch, const Microbatch&, const at::Tensor& hidden)> loss = {};
  /// Collates a microbatch of this rank's replica of the backbone.
  std::function<Microbatch(int microbatch)> collate = {};
  /// Collates the media that this rank encodes in a pass of an encoder that it runs: for the step
  /// after where that is ahead.
  std::function<model::EncoderInput(const EncoderLane&, int pass)> collate_media = {};
  const DealtItems* items = nullptr;    // of the step; null: no encoder is apart
  FeatureExchange* features = nullptr;  // of the step, encoded before; null: in this step
  FeatureExchange* ahead = nullptr;     // of the step after, which a module ahead encodes
  /// Returns the features of a microbatch that encoders beside the run make; null: there are none.
  std::function<model::Features(int microbatch)> take_features = {};
  /// Called after the backward of a microbatch that such features went into, if it has one.
  std::function<void(int microbatch)> give_gradients = {};
  std::function<void(mesh::Section)> on_section = {};  // before each pass
  std::function<void()> on_action = {};                // before each action
};

/// When one pass ran, in seconds of now_seconds(): on a device by the stream that computes.
struct PassTimes {
  schedule::Action action;
  int lane = 0;        // of the pipeline
  double reached = 0;  // the rank had done everything before it, collating too
  double start = 0;    // what it waited for was there
  double end = 0;
  double waited = 0;  // the part that the host waited for collectives; near 0 on a device
};

/// What one rank saw of a step.
struct Execution {
  PhaseSeconds seconds;           // data (collating), forward, backward
  double busy = 0;                // [s] passes, without what they waited for
  std::vector<PassTimes> passes;  // in their order
  double began = 0;               // as PassTimes
  double reduced = 0;             // likewise: when finish() was called
  double wall = 0;                // [s] from the first action to the last
  int in_flight = 0;              // max chunk activations kept at once
  /// [s] Of each pass of a lane, without waits inside it.
  std::map<int, std::vector<double>> of_lanes;
};

/// Runs the action lists of one rank: forwards and backwards of its virtual stages, what passes
/// between stages and along edges, and the reduction of a stage's gradients after its last weight
/// gradient.
///
/// The lists of all ranks come from one schedule, so that each message is awaited; the shapes
/// follow from the microbatch. Gradients add up in the units' shards in data order, whatever the
/// order of the schedule.
class Executor {
 public:
  /// `run` must outlive the executor.
  Executor(model::Model& model, const RunLanes& run, const ExecutorOptions& options);
  /// collective: as the model's stages; messages over pp and along edges
  void run(std::span<const LaneAction> actions);
  /// Returns what the rank saw. Call it once, after all work of the step's gradients is dispatched.
  /// stream: the host waits until the current one has come here
  [[nodiscard]] Execution finish();

 private:
  /// A module that this rank runs.
  struct LaneState {
    int lane = 0;    // of the pipeline
    int module = 0;  // likewise
    const parallel::Layout* layout = nullptr;
    bool is_backbone = true;
    const EncoderLane* encoder = nullptr;  // where it is not
    bool takes_features = false;           // its first stage
    // Of a colocated module: which microbatches of its list are one pass.
    std::optional<schedule::PassGroups> groups = {};
    int microbatches = 0;  // in its list
    std::vector<int> own;  // virtual stage of each chunk

    [[nodiscard]] bool is_last(int stage) const { return stage + 1 == layout->virtual_stages(); }
    /// Whether a stage takes something from another one, or along an edge.
    [[nodiscard]] bool has_input(int stage) const { return stage > 0 || takes_features; }
  };
  /// A virtual stage of a module, and a microbatch.
  struct Place {
    int module = 0;
    int stage = 0;
    int microbatch = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  /// One pass between its forward and its backward.
  struct Pass {
    model::StageInput input;  // leaves; none where a stage has no input
    at::Tensor output;        // with the graph between the two
    parallel::WeightQueue weights;
  };
  struct Incoming {
    at::Tensor values;
    mesh::Pending message;
  };

  [[nodiscard]] LaneState state_of(int lane);
  /// The features that an edge carries in this step.
  [[nodiscard]] FeatureExchange& carried(int edge);
  /// The pass that an action of a lane belongs to: its microbatch, or the group of those that a
  /// colocated module runs at once; none where the list only says that it is done already, or yet
  /// to come.
  [[nodiscard]] std::optional<int> pass_of(const schedule::Action& action) const;
  void do_action(const LaneAction& action);
  void forward(Place place);
  void backward(Place place, bool puts_weights_off);
  void backward_weights(Place place);
  /// Tells the chains of the last backward of each chunk, where it has one.
  void tell_of_last_backward(std::span<const LaneAction> actions, std::size_t index);
  /// A pass as the clocks marked it.
  struct MarkedPass {
    LaneAction action;
    std::size_t reached = 0;  // marks
    std::size_t start = 0;
    std::size_t end = 0;
    int number = 0;     // of the pass: a microbatch, or several of a colocated module
    double waited = 0;  // for collectives: until the pass began, then within it
  };
  [[nodiscard]] MarkedPass begin_pass(std::size_t reached, Place place);
  void end_pass(MarkedPass pass);
  void count(const MarkedPass& pass, const std::vector<double>& times);
  /// Phases by the stream: where it did not compute before a pass, it waited for the pass's data.
  [[nodiscard]] PhaseSeconds phases_of_stream() const;

  /// Collates the data of a pass.
  void load(int index);
  [[nodiscard]] const Microbatch& microbatch(int index);
  [[nodiscard]] const model::EncoderInput& media(int index);
  [[nodiscard]] at::Tensor run_stage(Place place, const model::StageInput& input);
  [[nodiscard]] at::Tensor empty_input(Place place);
  /// Takes what a stage needs, as leaves that want a gradient where something before them trains.
  [[nodiscard]] model::StageInput take_input(Place place);
  /// The gradient of what a pass gave; undefined for that of the loss itself.
  [[nodiscard]] at::Tensor take_output_gradient(Place place);
  /// Whether something that computed the hidden states of a later stage trains.
  [[nodiscard]] bool sends_gradient(int stage) const;

  void post_receive(parallel::Passed what, Place from, Place to);
  void send(parallel::Passed what, Place from, Place to);
  void hand_over(parallel::Passed what, Place from, Place to);
  [[nodiscard]] at::Tensor take(parallel::Passed what, Place place);
  [[nodiscard]] std::map<Place, Incoming>& incoming(parallel::Passed what);
  /// Takes what a pass has left for its neighbour.
  [[nodiscard]] at::Tensor give(parallel::Passed what, Place place);
  void reduce_gradients(int stage);

  model::Model& model_;
  const RunLanes& run_;
  ExecutorOptions options_;
  schedule::PipelineMap map_;
  std::map<int, LaneState> lanes_;                          // of this rank
  const LaneState* here_ = nullptr;                         // that of the action under way
  std::map<int, std::pair<Microbatch, int>> microbatches_;  // and forwards yet to come
  // Likewise, by lane too.
  std::map<std::pair<int, int>, std::pair<model::EncoderInput, int>> media_;
  std::optional<FeatureExchange> own_;
  FeatureExchange& features_;  // of the step
  std::map<Place, Pass> passes_;
  std::map<Place, Incoming> activations_;  // by the stage that takes them
  std::map<Place, Incoming> gradients_;
  std::map<Place, at::Tensor> outputs_;  // to pass on
  std::map<Place, at::Tensor> input_gradients_;
  std::map<std::pair<parallel::Passed, int>, std::deque<mesh::Pending>> sends_;  // by far stage
  StreamClock clock_;
  std::vector<MarkedPass> marked_;
  Execution seen_;
  LaneAction action_;  // under way
  Stopwatch watch_;
  int kept_ = 0;
};

}  // namespace tributary::train
