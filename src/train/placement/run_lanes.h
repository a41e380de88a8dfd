#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/family/known_modules.h"
#include "core/sample_shape.h"
#include "data/sample.h"
#include "parallel/redistribute.h"
#include "schedule/deal_media.h"
#include "schedule/pass_groups.h"
#include "schedule/pipeline/pipeline.h"
#include "train/placement/meshes.h"

namespace tributary::train {

/// An edge along which features of an encoder go to the backbone.
struct FeatureEdge {
  std::string encoder;
  ModalitySet takes;  // the encoder
  parallel::Edge ranks;
  schedule::MediaSeats seats;
  bool waits_on_host = false;  // features and gradients do, until they are used
  /// Whether a pass may make the features of several microbatches.
  [[nodiscard]] bool is_colocated() const { return seats.passes > 0; }
  /// Which microbatches get their features from each pass of the encoder, in a step whose first
  /// `rounds` microbatches hold samples.
  [[nodiscard]] schedule::PassGroups groups(std::int64_t rounds, std::int64_t microbatches) const {
    if (is_colocated()) return {seats.passes, rounds};
    return {microbatches, microbatches};
  }
};

/// A lane of an encoder that a rank runs.
struct EncoderLane {
  int lane = -1;
  std::string encoder = {};
  int edge = -1;           // along which its features go
  std::int64_t seat = -1;  // of the rank in it, the same on all its stages
  const mesh::Mesh* mesh = nullptr;
};

/// Encoders that are processes beside the run: those of modules with placement `flow`.
struct EncodersBeside {
  std::vector<std::string> modules = {};
  ModalitySet takes = {};
};

/// The pipeline of a run, and this rank's part in it: a lane of the backbone, one of an encoder, or
/// that of the backbone and one of each colocated encoder.
struct RunLanes {
  schedule::Pipeline pipeline;        // the number of microbatches is set for each step
  int backbone = -1;                  // lane; -1: this rank runs none
  std::vector<EncoderLane> encoders;  // in the order in which they begin a step
  std::vector<FeatureEdge> edges;     // [edges of the pipeline]
  EncodersBeside beside;

  /// Those of this rank: first the one that begins a step.
  [[nodiscard]] std::vector<int> own() const;
  [[nodiscard]] bool runs_backbone() const { return backbone >= 0; }
  [[nodiscard]] bool encodes() const { return !encoders.empty(); }
  /// What this rank runs on a lane, or of an encoder; null: the lane is the backbone's, or it runs
  /// none of it.
  [[nodiscard]] const EncoderLane* encoder_on(int lane) const;
  [[nodiscard]] const EncoderLane* find_encoder(std::string_view encoder) const;
  /// Whether encoders have meshes of their own, whose passes and data come from a step's media.
  [[nodiscard]] bool has_encoders_apart() const { return !edges.empty(); }
  /// Whether one of them encodes for the step after.
  [[nodiscard]] bool encodes_ahead() const;
  /// The modalities of those encoders.
  [[nodiscard]] ModalitySet taken_apart() const;
  /// Features and their gradients that this rank has sent so far.
  [[nodiscard]] std::int64_t sent_bytes() const;
  /// The stages of all modules, and which of them a lane has, in the order of the forward pass.
  [[nodiscard]] int stages() const;
  [[nodiscard]] int stage_of(int lane) const;
};

/// The only lane of a model that lies on one stage.
[[nodiscard]] RunLanes one_lane();

/// front: the modules of the model, as config::front_modules returns them
/// pipeline: of the plan
[[nodiscard]] RunLanes lanes_of_run(const config::Plan& plan, const schedule::Pipeline& pipeline,
                                    const Meshes& meshes,
                                    std::span<const config::FrontModule> front);

/// Where the media of a step are encoded: for each edge the rounds of its encoder's items,
/// equally many, one for each microbatch of the longest replica.
using DealtItems = std::vector<std::vector<schedule::MediaRound>>;

/// The number of rounds; 0 without edges.
[[nodiscard]] std::int64_t count_rounds(const DealtItems& items);

/// Media of a step, where encoders have meshes of their own: the same on all ranks.
struct StepMedia {
  DealtItems items = {};                          // [edges]
  std::int64_t first_id = 0;                      // of the samples of the global batch
  std::vector<data::EncodedSample> encoded = {};  // that hold rows which this rank encodes, by id
};

/// What the seat of a lane encodes in a step, in the order of its rows.
[[nodiscard]] std::vector<schedule::MediaItem> items_of_seat(const EncoderLane& own,
                                                             const DealtItems& items);
/// Likewise in one pass.
[[nodiscard]] std::vector<schedule::MediaItem> items_of_pass(const EncoderLane& own,
                                                             const DealtItems& items, int pass);

/// Which seats of a replica take an item: its home, or all of them, where each has all tokens.
enum class Homes { kOne, kAllOfReplica };

/// The rows of a microbatch along an edge, or those of several from `first` to before `end`.
[[nodiscard]] parallel::EdgeRows rows_of_round(std::span<const schedule::MediaRound> rounds,
                                               int microbatch, const FeatureEdge& edge,
                                               const model::Model& model,
                                               Homes homes = Homes::kOne);
[[nodiscard]] parallel::EdgeRows rows_of_rounds(std::span<const schedule::MediaRound> rounds,
                                                int first, int end, const FeatureEdge& edge,
                                                const model::Model& model);

}  // namespace tributary::train
