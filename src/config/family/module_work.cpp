#include "config/family/module_work.h"

#include <algorithm>

#include "config/family/known_modules.h"

namespace tributary::config {
namespace {

double as_double(std::int64_t count) { return static_cast<double>(count); }

/// Sum of squared window sizes in patches over one frame: windows tile the merged grid from its
/// upper left corner, those at the right and lower edge are cut.
double sum_squared_windows(const Grid& grid, const VisionConfig& vision) {
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

/// Sum of squared positions of each part of a sound that attends to itself.
double squared_chunks(const AudioConfig& audio, const Grid& item) {
  double sum = 0;
  const std::int64_t step = audio.chunk > 0 ? audio.chunk : item.patches();
  for (std::int64_t first = 0; first < item.patches(); first += step) {
    const double positions =
        as_double(audio.positions_of({1, 1, std::min(step, item.patches() - first)}));
    sum += positions * positions;
  }
  return sum;
}

}  // namespace

ModuleWork& ModuleWork::operator+=(const ModuleWork& other) {
  linear += other.linear;
  outside_layers += other.outside_layers;
  mlp += other.mlp;
  attention += other.attention;
  layers = std::max(layers, other.layers);
  return *this;
}

ModuleWork count_vision_work(const ModelConfig& model, const Grid& item) {
  const VisionConfig& vision = model.vision.value();
  const double patches = as_double(item.patches());
  const double frame = as_double(vision.frame_rows(item.rows * item.columns));
  const double rows = as_double(item.time) * frame;
  const double width = as_double(vision.width);
  const double layers = as_double(vision.layers);
  const double matrices = vision.kind == VisionClass::kQwen2_5Vl ? 3 : 2;
  const double mlp = matrices * width * as_double(vision.mlp_width);
  const double embedding = 2 * patches * as_double(vision.patch_width()) * width;
  const double full_layers = as_double(std::ranges::count_if(
      vision.full_attention_layers, [&](std::int64_t layer) { return layer < vision.layers; }));
  const double in_frame =
      full_layers * frame * frame +
      (layers - full_layers) *
          (vision.window == 0 ? frame * frame : sum_squared_windows(item, vision));
  return {.linear = 2 * rows * layers * (4 * width * width + mlp) + embedding,
          .outside_layers = embedding,
          .mlp = 2 * rows * layers * mlp,
          .attention = 4 * width * as_double(item.time) * in_frame,
          .layers = vision.layers};
}

ModuleWork count_merger_work(const ModelConfig& model, const Grid& item) {
  const VisionConfig& vision = model.vision.value();
  const double merged_width = as_double(vision.merge * vision.merge * vision.width);
  const double merged = as_double(item.patches()) / as_double(vision.merge * vision.merge);
  const double hidden = as_double(vision.projector_width());
  const double levels = 1 + as_double(std::ssize(vision.deepstack_layers));
  return {.linear = levels * 2 * merged * hidden * (merged_width + as_double(vision.output_width))};
}

ModuleWork count_audio_work(const ModelConfig& model, const Grid& item) {
  const AudioConfig& audio = model.audio.value();
  const double positions = as_double(audio.positions_of(item));
  const double width = as_double(audio.width);
  const double layers = as_double(audio.layers);
  const double mlp = 2 * width * as_double(audio.mlp_width);
  const double first = as_double(kFramesOfPosition) * as_double(audio.mel_bins) * width;
  const double convolutions = 2 * positions * 3 * (first + width * width);
  return {.linear = 2 * positions * layers * (4 * width * width + mlp) + convolutions,
          .outside_layers = convolutions,
          .mlp = 2 * positions * layers * mlp,
          .attention = 4 * width * layers * squared_chunks(audio, item),
          .layers = audio.layers};
}

ModuleWork count_audio_projector_work(const ModelConfig& model, const Grid& item) {
  const AudioConfig& audio = model.audio.value();
  const double tokens = as_double(audio.tokens_of(item));
  return {.linear = 2 * tokens * as_double(audio.width) * as_double(audio.output_width)};
}

ModuleWork count_backbone_work(const ModelConfig& model, Tokens tokens, Tokens target_tokens) {
  const BackboneConfig& backbone = model.backbone;
  const double rows = as_double(tokens.count);
  const double width = as_double(backbone.width);
  const double layers = as_double(backbone.layers);
  const double heads_width = as_double(backbone.heads * backbone.head_width);
  const double kv_width = as_double(backbone.kv_heads * backbone.head_width);
  const double mlp = 3 * width * as_double(backbone.mlp_width);
  const double head = 2 * as_double(target_tokens.count) * width * as_double(backbone.vocab);
  const double block = width * (2 * heads_width + 2 * kv_width) + mlp;
  return {.module = std::string(kBackboneModule),
          .linear = 2 * rows * layers * block + head,
          .outside_layers = head,
          .mlp = 2 * rows * layers * mlp,
          .attention = 4 * rows * rows * heads_width * layers,
          .is_causal = true,
          .layers = backbone.layers};
}

}  // namespace tributary::config
