#include <benchmark/benchmark.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/model.h"
#include "model/positions.h"

namespace tributary::model {
namespace {

constexpr std::int64_t kImage = 542;
constexpr std::int64_t kVideo = 543;

/// The demo's model.
config::ModelConfig demo_config() {
  config::ModelConfig config;
  config.family = config::ModelFamily::kQwen2_5Vl;
  config.backbone = {.layers = 4,
                     .width = 128,
                     .heads = 4,
                     .kv_heads = 2,
                     .head_width = 32,
                     .mlp_width = 384,
                     .vocab = 544,
                     .max_positions = 4096,
                     .rope_theta = 1e4,
                     .norm_epsilon = 1e-6,
                     .qkv_bias = true,
                     .qk_norm = false,
                     .tied_head = true,
                     .mrope_section = {4, 6, 6},
                     .initializer_range = 0.05};
  config::VisionConfig& vision = config.vision.emplace();
  vision.layers = 3;
  vision.width = 96;
  vision.heads = 3;
  vision.mlp_width = 256;
  vision.output_width = 128;
  vision.full_attention_layers = {2};
  config.tokens.image_pad = kImage;
  config.tokens.video_pad = kVideo;
  return config;
}

/// The mixture of the demo: small images, pairs of them, a document, clips, only text.
const std::vector<std::vector<Grid>> kSamples = {{{1, 8, 8}},
                                                 {},
                                                 {{1, 8, 8}, {1, 8, 8}},
                                                 {{1, 16, 16}},
                                                 {{2, 8, 8}},
                                                 {{1, 8, 8}},
                                                 {},
                                                 {{1, 6, 10}},
                                                 {{1, 14, 12}},
                                                 {{1, 8, 8}, {1, 8, 8}},
                                                 {{3, 6, 6}},
                                                 {},
                                                 {{1, 8, 8}},
                                                 {{1, 16, 16}}};

PackedBatch make_pack(bool with_media) {
  PackedBatch batch;
  std::vector<std::int64_t> tokens;
  const auto text = [&](std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      tokens.push_back(static_cast<std::int64_t>(tokens.size()) % 500);
  };
  std::int64_t image_patches = 0;
  std::int64_t video_patches = 0;
  batch.cu_seqlens = {0};
  for (const std::vector<Grid>& grids : kSamples) {
    text(6);
    for (const Grid& grid : grids) {
      const bool is_clip = grid.time > 1;
      tokens.insert(tokens.end(), static_cast<std::size_t>(grid.patches() / 4),
                    !with_media ? 1
                    : is_clip   ? kVideo
                                : kImage);
      text(2);
      (is_clip ? batch.media[Modality::kVideo].grids : batch.media[Modality::kImage].grids)
          .push_back(grid);
      (is_clip ? video_patches : image_patches) += grid.patches();
    }
    text(20);
    batch.cu_seqlens.push_back(static_cast<std::int32_t>(tokens.size()));
  }
  if (with_media) {
    batch.media[Modality::kImage].rows = at::randn({image_patches, 1176});
    batch.media[Modality::kVideo].rows = at::randn({video_patches, 1176});
  } else {
    batch.media[Modality::kImage].grids.clear();
    batch.media[Modality::kVideo].grids.clear();
  }
  batch.input_ids = at::tensor(tokens, at::kLong);
  batch.position_ids = position_ids(demo_config(),
                                    {.tokens = tokens,
                                     .cu_seqlens = batch.cu_seqlens,
                                     .images = batch.media[Modality::kImage].grids,
                                     .videos = batch.media[Modality::kVideo].grids},
                                    config::MropeMode::kOfficial);
  return batch;
}

/// Runs forward, loss on every eighth token, backward. Argument: 1 with media, 0 the same tokens as
/// text. The difference is the cost of the tower.
void train_step(benchmark::State& state) {
  const auto model = make_model(demo_config());
  for (const auto& unit : model->units()) unit->materialize(at::kCPU, at::kFloat, true);
  initialize(*model, 1);
  const PackedBatch batch = make_pack(state.range(0) == 1);
  const at::Tensor targets = at::where(at::arange(batch.input_ids.size(0)).remainder(8) == 0,
                                       batch.input_ids, at::full({}, -100, at::kLong));
  for (auto _ : state) {
    const LossSum loss = sum_loss(*model, model->forward(batch), targets, batch.cu_seqlens);
    torch::autograd::backward({loss.sum});
  }
  state.counters["tokens"] = static_cast<double>(batch.input_ids.size(0));
  state.counters["tokens_per_second"] = benchmark::Counter(
      static_cast<double>(batch.input_ids.size(0)), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(train_step)->ArgName("media")->Arg(1)->Arg(0)->UseRealTime();

}  // namespace
}  // namespace tributary::model
