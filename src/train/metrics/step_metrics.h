#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "core/json.h"
#include "train/balance/predict_load.h"

namespace tributary::train {

class EventFile;

/// Wall seconds of one step by phase; `data` is waiting for samples and making tensors of them.
struct PhaseSeconds {
  double data = 0;
  double forward = 0;
  double backward = 0;
  double optimizer = 0;
  double other = 0;

  [[nodiscard]] double sum() const { return data + forward + backward + optimizer + other; }
};

/// How long the step waited before its first forward; both lie within PhaseSeconds::data.
struct WaitSeconds {
  double samples = 0;  // until the loader had the global batch
  double packing = 0;  // until its samples had their microbatches
};

/// What the collectives of the step cost the rank that writes the line.
struct CollectiveCost {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;  // sent
  double seconds = 0;      // from issue to the end of the wait, added over all of them
  double waited = 0;       // the part of it in which the rank did nothing else
};

/// How busy the pipeline stages were in a step; with one stage nothing is written.
struct PipelineUse {
  double bubble = 0;                    // idle share of all ranks, 0 to 1
  std::vector<std::int64_t> in_flight;  // [pp] max chunk activations that a stage kept
};

/// Features from encoders beside the run, of all ranks; without such encoders nothing is written.
struct FlowUse {
  std::int64_t objects = 0;         // that the pool gave
  std::int64_t bytes = 0;           // of them
  std::int64_t encoded_here = 0;    // samples that ranks encoded, because nobody had in time
  std::int64_t too_large = 0;       // of them: no encoder has room for their features
  std::int64_t gradients = 0;       // samples by which encoders made the gradient of their towers
  std::int64_t gradients_here = 0;  // by which ranks made it
  double starved = 0;               // [s] that ranks waited for features
  double encoding = 0;              // [s] that they encoded
  double encoding_too_large = 0;    // [s] of them: what no encoder has room for
  std::int64_t repeated = 0;        // 1: the step began again, as pixels turned out bad in it
  std::int64_t out_of_turn = 0;     // samples of the step that are of another batch of the data
  std::int64_t encoders = 0;        // processes that encode for the run, at the end of the step
  std::int64_t pool_bytes = 0;      // of features that they hold then
  std::int64_t joined = 0;          // encoders that came since the step before
  std::int64_t left = 0;            // that went
  std::int64_t lost = 0;            // that died, or were silent for too long
  std::int64_t made = 0;            // objects that they have made since
  double encoder_seconds = 0;       // [s] that they were there since, added up over them
  double encoder_busy = 0;          // [s] that they read and encoded
  double encoder_blocked = 0;       // [s] that they had work, and no room for features
  double needed = 0;                // objects of the step, however many ranks read each
  std::int64_t takers = 0;          // ranks that read objects
  std::optional<std::int64_t> wanted = {};  // encoders; null: their number is fixed
  std::string reallocation = {};            // why another number than before is wanted

  /// Objects a second that the encoders of the step's end make while they work; null where none
  /// has told of any.
  [[nodiscard]] std::optional<double> encoder_rate() const;
  /// Objects a second that a step of `step_seconds` trains on while ranks do not wait for features
  /// and do not encode.
  [[nodiscard]] std::optional<double> backbone_rate(double step_seconds) const;

  [[nodiscard]] std::vector<std::int64_t*> counts() {
    return {&objects,        &bytes,    &encoded_here, &too_large, &gradients,
            &gradients_here, &repeated, &out_of_turn,  &encoders,  &pool_bytes,
            &joined,         &left,     &lost,         &made,      &takers};
  }
  [[nodiscard]] std::vector<double*> sums() {
    return {&starved,         &encoding, &encoding_too_large, &encoder_seconds, &encoder_busy,
            &encoder_blocked, &needed};
  }
};

/// How level the work of the ranks was, and what planning it took.
struct BalanceMetrics {
  std::int64_t parts = 1;                 // that are compared; 1: nothing is written
  std::vector<Imbalance> imbalance = {};  // largest / mean over them
  double gap = 0;                         // of the plan, above a bound that no plan is below
  double planning = 0;                    // seconds, ahead of the step
  double exposed = 0;                     // the part of it that the step waited for
  std::int64_t repacked = 0;  // replicas where another sample took the place of a bad one
};

/// Loss of one source: sum of the cross entropy over its target tokens, or of the loss over its
/// pairs.
struct SourceLoss {
  double sum = 0;
  std::int64_t targets = 0;  // or pairs

  [[nodiscard]] double mean() const { return sum / static_cast<double>(targets); }
  SourceLoss& operator+=(const SourceLoss& other) {
    sum += other.sum;
    targets += other.targets;
    return *this;
  }
};

/// What a step drew from one source.
struct SourceDraw {
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
  std::int64_t target_tokens = 0;
};

/// Norms of what a run trains of one module.
struct ModuleNorms {
  std::string module;
  double gradient = 0;                    // before clipping
  std::optional<double> update = {};      // new - old, where the step measured it
  std::optional<double> parameters = {};  // before the update; likewise
};

/// Sums over pairs of answers. The reward of an answer is beta times its log-probability above that
/// of the reference.
struct PairSums {
  std::int64_t pairs = 0;
  double chosen_reward = 0;
  double rejected_reward = 0;
  double preferred = 0;  // pairs whose chosen answer has the larger reward
  double chosen_log_prob = 0;
  double rejected_log_prob = 0;

  [[nodiscard]] std::array<double*, 5> numbers() {
    return {&chosen_reward, &rejected_reward, &preferred, &chosen_log_prob, &rejected_log_prob};
  }
  PairSums& operator+=(PairSums other);
  /// Share of pairs whose chosen answer has the larger reward; NaN without pairs.
  [[nodiscard]] double accuracy() const { return preferred / static_cast<double>(pairs); }
  /// Mean of the rewards of chosen answers above those of rejected ones; NaN without pairs.
  [[nodiscard]] double margin() const {
    return (chosen_reward - rejected_reward) / static_cast<double>(pairs);
  }
};

/// `rewards` and `log_probs` of a line: means over the pairs.
void add_pairs(const PairSums& sums, Json& line);

/// One line of metrics.jsonl (docs/formats/run_directory.md).
struct StepMetrics {
  std::int64_t step = 0;
  double loss = 0;
  double learning_rate = 0;
  double grad_norm = 0;
  std::vector<ModuleNorms> norms;  // empty without a target token
  std::int64_t tokens = 0;
  std::int64_t target_tokens = 0;
  std::int64_t samples = 0;
  std::int64_t left_out = 0;  // records drawn that are too long (data.too_long)
  std::int64_t microbatches = 0;
  std::int64_t media_decoded = 0;  // images and clips, each time that a rank decoded one
  PhaseSeconds seconds;
  WaitSeconds waiting;
  CollectiveCost collectives;
  std::int64_t feature_bytes = 0;  // sent by all ranks between modules; 0: modules lie together
  std::optional<FlowUse> flow;
  PipelineUse pipeline;
  BalanceMetrics balance;
  std::vector<SourceLoss> by_source;  // in the order of data.sources
  std::vector<SourceDraw> drawn;      // likewise

  PairSums pairs;  // of objective.kind dpo; without a pair nothing is written
  double fill = 0;
  double padding = 0;  // share of the rows of the backbone's attention; nothing else is padded
  double mfu_causal = 0;
  double mfu_full = 0;
  double hfu = 0;  // hardware FLOPs: mfu_causal and the recompute
  std::int64_t peak_bytes = 0;
  std::string skip_reason;               // empty: the step was done
  std::vector<std::string> sample_keys;  // of a skipped step

  [[nodiscard]] double tokens_per_second() const {
    return static_cast<double>(tokens) / seconds.sum();
  }
};

[[nodiscard]] Json to_json(const StepMetrics& metrics, const std::vector<std::string>& sources);

/// The scalars that TensorBoard shows of a step.
void add_step(EventFile& events, const StepMetrics& metrics,
              const std::vector<std::string>& sources);

/// Peak memory of the process [bytes].
[[nodiscard]] std::int64_t peak_process_bytes();
/// Peak memory of the run [bytes]: of its process on a CPU, of the tensors on another device.
[[nodiscard]] std::int64_t peak_bytes(c10::Device device);

}  // namespace tributary::train
