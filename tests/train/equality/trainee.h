#pragma once

#include <memory>

#include "config/run/run_config.h"
#include "model/model.h"
#include "tests/train/equality/cell.h"
#include "train/balance/sample_router.h"
#include "train/balance/step_planner.h"
#include "train/optimizer/apply_update.h"
#include "train/optimizer/optimizer.h"

namespace tributary::train {

/// The tiny Qwen2.5-VL or Qwen3 of all comparisons.
[[nodiscard]] config::ModelConfig tiny_model_config(
    bool sees, config::VisionClass tower = config::VisionClass::kQwen2_5Vl);

/// The tiny Qwen2-Audio, or the thinker of Qwen2.5-Omni.
[[nodiscard]] config::ModelConfig tiny_hearing_config(bool sees);

/// One tiny model in training on some mesh, on batches that follow only from the step.
class Trainee {
 public:
  /// On a world of one rank all modules lie together, whatever the cell says.
  Trainee(const Cell& cell, const mesh::World& world, std::uint64_t seed = 3);
  Trainee(const Trainee&) = delete;
  Trainee& operator=(const Trainee&) = delete;
  /// Leaves the gradients in the units' shards. Returns the loss.
  double differentiate(int step);
  /// Measures the norm anew, where a test has changed gradients. collective: over all ranks
  void measure_norm();
  Update update();
  [[nodiscard]] const model::Model& model() const { return *model_; }
  [[nodiscard]] const Optimizer& optimizer() const { return *optimizer_; }
  [[nodiscard]] const mesh::Mesh& mesh() const { return meshes_.backbone; }
  [[nodiscard]] const RunLanes& lanes() const { return lanes_; }

 private:
  const Cell& cell_;
  config::RunConfig config_;
  Meshes meshes_;
  RunLanes lanes_;
  std::unique_ptr<StepPlanner> planner_;
  std::unique_ptr<SampleRouter> router_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  double loss_ = 0;
  double sum_squared_ = 0;
};

}  // namespace tributary::train
