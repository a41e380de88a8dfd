#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "train/placement/run_lanes.h"

namespace tributary::train {

/// The features of a step on their way from encoders to the backbone, and their gradients on the
/// way back: one message a microbatch, or one for the whole step where the encoder is colocated.
///
/// Made alike on all ranks; model, run and rounds must outlive it.
class FeatureExchange {
 public:
  FeatureExchange(const model::Model& model, const RunLanes& run,
                  std::span<const schedule::MediaRound> rounds, int microbatches);

  /// On the ranks of the encoder, after a pass. shape: rows [rows of the seat or more, width]
  void send(int edge, int pass, const at::Tensor& rows);
  /// On the first stage of the backbone: before and after the features of a microbatch arrive.
  void expect(int edge, int microbatch);
  [[nodiscard]] at::Tensor take(int edge, int microbatch);

  // The gradients, the other way round.
  void send_gradient(int edge, int microbatch, const at::Tensor& gradient);
  void expect_gradient(int edge, int pass);
  [[nodiscard]] at::Tensor take_gradient(int edge, int pass);

  /// Waits until everything that was sent has left. collective: none
  void finish();

 private:
  /// Rows that come or go in parts: those of passes, or of microbatches.
  struct Batch {
    explicit Batch(std::int64_t count)
        : rows(static_cast<std::size_t>(count)), parts(static_cast<std::size_t>(count)) {}
    std::vector<std::int64_t> rows;  // [parts] of this rank's seat
    std::vector<at::Tensor> parts;   // [parts] on their way out
    std::size_t filled = 0;
    at::Tensor whole;  // that arrived

    /// The rows of a part that has arrived.
    [[nodiscard]] at::Tensor part(int index) const;
    /// Keeps a part; returns whether all are there.
    [[nodiscard]] bool keep(int index, const at::Tensor& part);
    /// Takes the parts.
    [[nodiscard]] at::Tensor join();
  };
  /// An edge whose features go in one batch.
  struct StepEdge {
    parallel::Redistribute rows;
    Batch made, kept;
    std::optional<parallel::Arriving> features, gradients;
  };

  [[nodiscard]] StepEdge& step_edge(int edge);
  [[nodiscard]] parallel::Redistribute& rows_along(int edge, int microbatch);
  void keep_sent(std::vector<mesh::Pending> messages);
  [[nodiscard]] std::int64_t width(int edge) const;
  [[nodiscard]] bool in_one_batch(int edge) const;

  const model::Model& model_;
  const RunLanes& run_;
  std::span<const schedule::MediaRound> rounds_;
  int microbatches_;
  std::map<int, StepEdge> steps_;                                      // by edge
  std::map<std::pair<int, int>, parallel::Redistribute> rounds_rows_;  // by edge and microbatch
  std::map<std::pair<int, int>, parallel::Arriving> features_;         // likewise
  std::map<std::pair<int, int>, parallel::Arriving> gradients_;
  std::deque<mesh::Pending> sent_;
};

}  // namespace tributary::train
