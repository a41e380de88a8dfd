#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/family/model_config.h"
#include "config/run/mesh_shape.h"
#include "config/run/run_config.h"
#include "mesh/mesh.h"

namespace tributary::train {

/// One comparison of many ranks with one.
struct Cell {
  config::MeshShape shape = {};
  config::PipelineOrder order = config::PipelineOrder::k1f1b;
  std::int64_t virtual_stages = 1;
  std::int64_t vision_stages = 0;
  std::optional<config::MeshShape> vision = {};  // of a tower with ranks of its own
  std::vector<std::int64_t> vision_ranks = {};   // of it; empty: those behind the backbone's
  std::int64_t vision_passes = 0;                // of a colocated tower; 0: it is separate
  bool vision_turns = false;                     // its passes run among those of the backbone
  std::optional<config::MeshShape> audio = {};   // of Omni's tower of sound, on the last ranks
  std::int64_t audio_passes = 0;                 // as of the other tower
  bool audio_turns = false;
  std::int64_t layers = 2;                                 // of the backbone
  bool sees = true;                                        // a Qwen-VL, else a model of text
  config::ModelFamily text = config::ModelFamily::kQwen3;  // of that: Qwen2, Qwen3 or Llama
  config::VisionClass tower = config::VisionClass::kQwen2_5Vl;
  /// A Qwen2-Audio, whose tower the fields of `vision` place; where it sees too, Qwen2.5-Omni.
  bool hears = false;
  std::vector<std::string> freeze = {};  // modules
  config::AdapterSection adapter = {};
  config::OptimizerKind optimizer = config::OptimizerKind::kAdamW;
  std::vector<config::ModuleRecompute> recompute = {};
  std::int64_t samples = 6;     // of a global batch
  bool has_text_steps = false;  // every third batch has no media
  bool releases = true;         // gathered parameters between forward and backward
  std::int64_t prefetch = 1;
  bool ulysses_async = false;
  std::vector<std::string> offload = {};  // modules; parameters and moments too
  bool chunks_head = false;               // logits of 2 targets at a time
  bool shards_optimizer = false;          // only the optimizer: ZeRO-1
  bool ties_head = false;                 // also of Qwen2.5-VL
  config::Balance balance = config::Balance::kNone;
  std::int64_t microbatches = 0;  // of each replica, packed level; 0: packing finds their number
  bool compares_pairs = false;    // samples are pairs of answers (DPO)
  int steps = 20;

  [[nodiscard]] std::int64_t world() const {
    return shape.world() + (vision && vision_passes == 0 ? vision->world() : 0) +
           (audio && audio_passes == 0 ? audio->world() : 0);
  }
  [[nodiscard]] std::string name() const;
  /// The module of its tower.
  [[nodiscard]] std::string encoder() const { return hears && !sees ? "audio" : "vision"; }
};

/// The largest deviations over all steps.
struct Deviation {
  double loss = 0;        // relative
  double gradient = 0;    // of a parameter, relative norm
  std::string parameter;  // that deviates most
};

/// Key and value heads of the models: what a mesh must know for tp above it.
inline constexpr std::int64_t kKvHeads = 2;

/// Trains the same tiny model on the same batches on one rank and on the cell's meshes, and
/// compares the loss and every gradient of every step.
///
/// collective: over all ranks of the world, which has those of the cell
[[nodiscard]] Deviation run_cell(const mesh::World& world, const Cell& cell);

/// Bytes of parameters, gradients and moments that this rank keeps of the tiny Qwen2.5-VL.
[[nodiscard]] std::int64_t count_state_bytes(const mesh::Mesh& mesh);

/// Lists what is compared: every single axis, each pair and each triple, each with frozen modules,
/// recompute and fewer samples than ranks; without `all` a part that covers each of these once.
[[nodiscard]] std::vector<Cell> list_cells(bool all);

}  // namespace tributary::train
