#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "train/executor/waiting_rows.h"
#include "train/placement/run_lanes.h"

namespace tributary::train {

/// The gradient of a leaf; zeros where nothing used it.
[[nodiscard]] at::Tensor gradient_of(const at::Tensor& leaf);

/// The features of a step on their way from encoders to the backbone, and their gradients on the
/// way back: one message for each pass of an encoder, whose rows several microbatches take where
/// the encoder is colocated. A message is on its way while later passes are computed.
///
/// Features that are encoded ahead come in the step before the one that takes them.
///
/// Made alike on all ranks; model, run and items must outlive it. Without edges there are no items.
class FeatureExchange {
 public:
  FeatureExchange(const model::Model& model, const RunLanes& run, const DealtItems* items,
                  int microbatches);

  /// On the ranks of the encoder, after a pass. shape: rows [rows of the seat or more, width]
  void send(int edge, int pass, const at::Tensor& rows);
  /// On the first stage of the backbone: before and after the features of a microbatch arrive.
  /// Microbatches are taken in their order. The leaves of those encoders that train want a
  /// gradient.
  void expect(int edge, int microbatch);
  [[nodiscard]] model::Features take_leaves(int microbatch);

  // The gradients, the other way round.
  void keep_gradients(int microbatch, const model::Features& leaves);
  void send_gradient(int edge, int microbatch);
  void expect_gradient(int edge, int pass);
  [[nodiscard]] at::Tensor take_gradient(int edge, int pass);

  /// Waits until everything that was sent has left. collective: none
  void finish();
  /// Waits for all features that are expected, too, which stay here for the step that takes them.
  /// collective: as takes of parallel::Redistribute
  void settle();

  /// Which microbatches take their features from each pass of an encoder.
  [[nodiscard]] schedule::PassGroups groups(int edge) const;
  [[nodiscard]] int microbatches() const { return microbatches_; }

 private:
  /// The rows of a pass, on this rank.
  struct Exchange {
    parallel::Redistribute rows;
    int first = 0;                   // microbatch that takes some of them
    std::vector<std::int64_t> kept;  // [its microbatches] rows of this rank's seat
    std::optional<parallel::Arriving> features = {};
    std::optional<parallel::Arriving> gradients = {};
    int taken = 0;                           // by how many microbatches
    int returned = 0;                        // gradients of how many
    at::Tensor arrived = {};                 // features that microbatches take
    WaitingRows on_host = {};                // or those that wait, of the last microbatches
    std::vector<at::Tensor> to_return = {};  // gradients of the first microbatches
    WaitingRows returning = {};              // or on the host
  };

  [[nodiscard]] std::span<const schedule::MediaRound> rounds(int edge) const {
    return (*items_)[static_cast<std::size_t>(edge)];
  }
  [[nodiscard]] Exchange& exchange(int edge, int pass);
  [[nodiscard]] Exchange& exchange_of(int edge, int microbatch) {
    return exchange(edge, static_cast<int>(groups(edge).pass_of(microbatch)));
  }
  [[nodiscard]] at::Tensor take(int edge, int microbatch);
  [[nodiscard]] bool waits_on_host(int edge) const {
    return run_.edges[static_cast<std::size_t>(edge)].waits_on_host;
  }
  /// Takes the features of the `place`-th microbatch of a pass.
  [[nodiscard]] static at::Tensor take_part(Exchange& of, std::size_t place);
  [[nodiscard]] static at::Tensor take_from_host(Exchange& of, std::size_t place);
  /// Those of the `place`-th microbatch and all later ones.
  static void move_to_host(Exchange& of, std::size_t place);
  void keep_sent(int edge, std::vector<mesh::Pending> messages);
  [[nodiscard]] std::int64_t width(int edge) const;

  const model::Model& model_;
  const RunLanes& run_;
  const DealtItems* items_;
  int microbatches_;
  std::vector<bool> trains_ = {};                        // [edges] the encoder
  std::map<std::pair<int, int>, Exchange> exchanges_;    // by edge and pass
  std::map<std::pair<int, int>, at::Tensor> gradients_;  // to send, by edge and microbatch
  std::map<int, std::deque<mesh::Pending>> sent_;        // by edge
};

}  // namespace tributary::train
