#include "train/balance/flops.h"

#include <algorithm>
#include <string>

namespace tributary::train {
namespace {

double as_double(std::int64_t count) { return static_cast<double>(count); }

/// Sum of squared window sizes in patches over one frame: windows tile the merged grid from its
/// upper left corner, those at the right and lower edge are cut.
double sum_squared_windows(const Grid& grid, const config::VisionConfig& vision) {
  const std::int64_t side = vision.window / vision.patch;
  double sum = 0;
  for (std::int64_t row = 0; row < grid.rows; row += side) {
    for (std::int64_t column = 0; column < grid.columns; column += side) {
      const double patches =
          as_double(std::min(side, grid.rows - row) * std::min(side, grid.columns - column));
      sum += patches * patches;
    }
  }
  return sum;
}

void add_vision(const config::VisionConfig& vision, const Grid& grid, ForwardFlops& flops) {
  const double patches = as_double(grid.patches());
  const double width = as_double(vision.width);
  const double layers = as_double(vision.layers);
  const double block = 4 * width * width + 3 * width * as_double(vision.mlp_width);
  const double embedding = 2 * patches * as_double(vision.patch_width()) * width;
  flops.vision_linear += 2 * patches * layers * block + embedding;
  flops.patch_embedding += embedding;
  flops.vision_mlp += 2 * patches * layers * 3 * width * as_double(vision.mlp_width);

  const double frame = as_double(grid.rows * grid.columns);
  const double full_layers = as_double(static_cast<std::int64_t>(
      std::count_if(vision.full_attention_layers.begin(), vision.full_attention_layers.end(),
                    [&](std::int64_t layer) { return layer < vision.layers; })));
  const double in_frame =
      full_layers * frame * frame + (layers - full_layers) * sum_squared_windows(grid, vision);
  flops.vision_attention += 4 * width * as_double(grid.time) * in_frame;

  const double merged_width = as_double(vision.merge * vision.merge) * width;
  const double merged = patches / as_double(vision.merge * vision.merge);
  flops.projector +=
      2 * merged * (merged_width * merged_width + merged_width * as_double(vision.output_width));
}

bool lists(std::span<const std::string> modules, const std::string& module) {
  return std::find(modules.begin(), modules.end(), module) != modules.end();
}

}  // namespace

ForwardFlops& ForwardFlops::operator+=(const ForwardFlops& other) {
  vision_linear += other.vision_linear;
  patch_embedding += other.patch_embedding;
  vision_mlp += other.vision_mlp;
  vision_attention += other.vision_attention;
  projector += other.projector;
  backbone_linear += other.backbone_linear;
  backbone_mlp += other.backbone_mlp;
  backbone_attention += other.backbone_attention;
  head += other.head;
  return *this;
}

ForwardFlops count_forward(const config::ModelConfig& config, const SampleShape& shape) {
  ForwardFlops flops;
  if (config.vision) {
    for (const Grid& grid : shape.images) add_vision(*config.vision, grid, flops);
    for (const Grid& grid : shape.videos) add_vision(*config.vision, grid, flops);
  }
  const config::BackboneConfig& backbone = config.backbone;
  const double tokens = as_double(shape.tokens.count);
  const double width = as_double(backbone.width);
  const double layers = as_double(backbone.layers);
  const double heads_width = as_double(backbone.heads * backbone.head_width);
  const double kv_width = as_double(backbone.kv_heads * backbone.head_width);
  const double block =
      width * (2 * heads_width + 2 * kv_width) + 3 * width * as_double(backbone.mlp_width);
  flops.backbone_linear = 2 * tokens * layers * block;
  flops.backbone_mlp = 2 * tokens * layers * 3 * width * as_double(backbone.mlp_width);
  flops.backbone_attention = 4 * tokens * tokens * heads_width * layers;
  flops.head = 2 * as_double(shape.target_tokens.count) * width * as_double(backbone.vocab);
  return flops;
}

TrainFlops count_training(const ForwardFlops& forward, std::span<const std::string> frozen,
                          std::span<const config::ModuleRecompute> recomputed) {
  // Backward of weighted work: weight gradients where the module is trained, input gradients where
  // it or something before is; of attention: the gradients of both operands or none.
  struct Work {
    double linear = 0;
    double outside_layers = 0;  // of `linear`; never run again
    double mlp = 0;             // of `linear`
    double attention = 0;
    double causal_share = 1;
  };
  TrainFlops train;
  bool trained_before = false;
  const auto add = [&](const char* module, const Work& work) {
    const bool trained = !lists(frozen, module);
    const bool flows = trained || trained_before;
    const double linear_passes = 1 + (trained ? 1 : 0) + (flows ? 1 : 0);
    const double attention_passes = flows ? 3 : 1;
    const double causal =
        linear_passes * work.linear + attention_passes * work.attention * work.causal_share;
    train.full += linear_passes * work.linear + attention_passes * work.attention;
    train.causal += causal;
    train.hardware += causal;
    const auto level = flows ? config::level_of(recomputed, module) : config::RecomputePlan::kNone;
    if (level == config::RecomputePlan::kFull)
      train.hardware += work.linear - work.outside_layers + work.attention * work.causal_share;
    if (level == config::RecomputePlan::kSelective) train.hardware += work.mlp;
    trained_before = flows;
  };
  add("vision", {.linear = forward.vision_linear,
                 .outside_layers = forward.patch_embedding,
                 .mlp = forward.vision_mlp,
                 .attention = forward.vision_attention});
  add("projector", {.linear = forward.projector});
  add("backbone", {.linear = forward.backbone_linear + forward.head,
                   .outside_layers = forward.head,
                   .mlp = forward.backbone_mlp,
                   .attention = forward.backbone_attention,
                   .causal_share = 0.5});
  return train;
}

std::string describe_mfu() {
  return "mfu = FLOP of forward and backward / (seconds of the step * peak FLOP/s). One "
         "multiply-add is 2 FLOP. Weighted layers: 2 * positions * weights forward, twice that "
         "backward (once where the module is frozen, none where nothing before it is trained); "
         "embedding 0; head on target tokens alone. Attention of the backbone, forward and "
         "backward: mfu_full 12 * tokens^2 * heads * head_width * layers per sample, mfu_causal "
         "6 * the same. Attention of the vision tower: 12 * width * patches^2 per window or frame. "
         "Padding and recompute do not count. hfu = mfu_causal with one more forward of what "
         "model.recompute and model.offload run again in backward.";
}

}  // namespace tributary::train
