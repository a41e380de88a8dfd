// Predicted times of passes against measured ones, for packs of equal tokens whose lengths were not
// measured. The prediction is made from a profile with attention apart, and from one that has it in
// the points of the layers, by tokens alone. Times are CPU times of one thread.
#include <algorithm>
#include <benchmark/benchmark.h>
#include <cmath>
#include <map>

#include <ATen/Parallel.h>

#include "core/random.h"
#include "cost/profile_costs.h"
#include "parallel/unit_chain.h"
#include "tests/model/tiny_text_model.h"
#include "tests/train/tiny_samples.h"
#include "train/profile/length_packs.h"
#include "train/profile/measure_passes.h"
#include "train/profile/profile_ledger.h"

namespace tributary::train {
namespace {

constexpr Tokens kCapacity{2048};

config::ModelConfig make_config() {
  config::ModelConfig config = model::tiny_config(config::ModelFamily::kQwen2);
  config.family = config::ModelFamily::kQwen2_5Vl;
  config.backbone.layers = 3;
  config.backbone.width = config.backbone.heads * 32;
  config.backbone.head_width = 32;
  config.backbone.mlp_width = 3 * config.backbone.width;
  config.backbone.mrope_section = {4, 6, 6};
  config.tokens = {.image_pad = 57, .video_pad = 58, .vision_start = 59, .vision_end = 60};
  config.vision = config::VisionConfig{.layers = 3,
                                       .width = 128,
                                       .heads = 4,
                                       .mlp_width = 384,
                                       .output_width = config.backbone.width,
                                       .full_attention_layers = {1}};
  return config;
}

SamplePack texts_of(std::int64_t length, std::int64_t count) {
  return make_text_samples(
      std::vector<int>(static_cast<std::size_t>(count), static_cast<int>(length)), /*vocab=*/57);
}

SamplePack pictures_of(const config::ModelConfig& config, std::int64_t side, std::int64_t count) {
  SamplePack pack = texts_of(8, count);
  for (data::EncodedSample& sample : pack) add_image(sample, config, {1, side, side}, 1);
  return pack;
}

/// Samples as a run may have them: log-normal lengths, and pictures in half of them.
SamplePack draw_mixture(const config::ModelConfig& config) {
  SamplePack samples;
  RandomStream random(1, "attention_lengths_bench");
  for (int i = 0; i < 200; ++i) {
    const double length = 150 * std::exp(0.9 * random.normal());
    SamplePack sample = texts_of(std::clamp<std::int64_t>(std::llround(length), 8, 1200), 1);
    if (i % 2 == 0) {
      const std::int64_t side = 2 * random.between(3, 20);
      add_image(sample[0], config, {1, side, 2 * random.between(3, 20)}, 1);
    }
    samples.push_back(std::move(sample[0]));
  }
  return samples;
}

/// A model, and what is measured of it on this rank alone.
class Machine {
 public:
  Machine() {
    at::set_num_threads(1);
    run_.data.sources.resize(2);
    parallel::Layout layout;
    layout.chain = std::make_shared<parallel::UnitChain>(parallel::ChainOptions{});
    model_ = model::make_model(config, layout);
    for (const auto& unit : model_->units()) unit->materialize(at::kCPU, at::kFloat, true);
    model::initialize(*model_, /*seed=*/1);
    measure_profile();
  }

  [[nodiscard]] PassMeasurement measure(const ProfileBatch& batch) {
    return measure_passes(*model_, run_, batch, mesh_.world(), options()).front();
  }
  static ProfileBatch batch_of(const SamplePack& pack) {
    ProfileBatch batch{.capacity = kCapacity, .microbatches = {{}}};
    for (const data::EncodedSample& sample : pack) batch.microbatches.front().push_back(&sample);
    return batch;
  }
  /// Forward and backward of a pack, in nanoseconds.
  [[nodiscard]] double predict(const config::Profile& profile, const SamplePack& pack) const {
    const cost::ProfileCosts costs(profile, 1, 1, "profile");
    const ProfileBatch batch = batch_of(pack);
    double time = 0;
    for (const config::ProfileTable& table : profile.layers) {
      const LayerKey key{table.module, table.layer};
      const LayerWork work = work_of(batch.microbatches.front(), key, config);
      if (work.items <= 0) continue;
      const cost::LayerCost cost = costs.layer(
          key.module, shape_of(key), {.tokens = work.items, .squared_tokens = work.pairs}, {}, {});
      time += layers_of(key) *
              double((cost.forward + cost.input_gradient + cost.weight_gradient).count);
    }
    return time;
  }

  const config::ModelConfig config = make_config();
  config::Profile apart{.model = "bench", .device = "cpu", .cores = 1};
  config::Profile joint{.model = "bench", .device = "cpu", .cores = 1};

 private:
  static PassOptions options() {
    return {.crowds = {{.ranks = 1, .shares_cores = true}}, .rounds = 3};
  }
  void measure_profile() {
    const SamplePack samples = draw_mixture(config);
    for (const std::int64_t eighths : {1, 2, 4, 6, 8}) {
      const PassMeasurement measured =
          measure(fill_microbatches(samples, {kCapacity.count * eighths / 8}, 1));
      for (const auto& [key, point] : measured.points) {
        const config::ProfileTable like{.module = key.module,
                                        .layer = key.layer,
                                        .dtype = config::Dtype::kFloat32,
                                        .threads = 1};
        add_point(apart, like, point);
        config::ProfilePoint whole = point;
        if (const auto core = measured.attention.find(key); core != measured.attention.end()) {
          (void)add_attention(apart, like, core->second);
          whole.forward += core->second.forward;
          whole.input_gradient += core->second.gradient;
        }
        add_point(joint, like, whole);
      }
    }
    std::vector<SamplePack> packs = make_text_packs(config, kCapacity);
    for (SamplePack& pack : make_image_packs(config, kCapacity, samples))
      packs.push_back(std::move(pack));
    for (const SamplePack& pack : packs) {
      const auto measured =
          measure_attention(*model_, run_, batch_of(pack), mesh_.world(), options());
      for (const auto& [key, point] : measured.front())
        (void)add_attention(apart,
                            {.module = key.module,
                             .layer = key.layer,
                             .dtype = config::Dtype::kFloat32,
                             .threads = 1},
                            point);
    }
  }
  [[nodiscard]] double layers_of(const LayerKey& key) const {
    if (key == LayerKey{"backbone", "block"}) return double(config.backbone.layers);
    return key.layer == "window_block" ? double(config.vision->layers - 1) : 1;
  }
  static config::LayerShape shape_of(const LayerKey& key) {
    config::LayerShape shape;  // only its kind tells the table
    if (key.layer == "embedding") shape.kind = config::LayerKind::kEmbedding;
    if (key.layer == "head") shape.kind = config::LayerKind::kHead;
    if (key.layer == "projector") shape.kind = config::LayerKind::kProjector;
    if (key.layer == "patch_embedding") shape.kind = config::LayerKind::kPatchEmbedding;
    if (key.layer == "window_block") shape.window = 64;
    shape.causal = key.module == "backbone";
    return shape;
  }

  config::RunConfig run_;
  mesh::Mesh mesh_;
  std::unique_ptr<model::Model> model_;
};

Machine& machine() {
  static Machine made;
  return made;
}

void report(benchmark::State& state, const SamplePack& pack) {
  const double apart = machine().predict(machine().apart, pack);
  const double joint = machine().predict(machine().joint, pack);
  double real = 0;
  for (auto _ : state) {
    const config::MeasuredPass whole = machine().measure(Machine::batch_of(pack)).whole;
    real = double((whole.forward + whole.backward).count);
    state.SetIterationTime(1e-9 * real);
  }
  std::int64_t tokens = 0;
  for (const data::EncodedSample& sample : pack) tokens += std::ssize(sample.tokens);
  state.counters["tokens"] = double(tokens);
  state.counters["apart_error_percent"] = 100 * (apart / real - 1);
  state.counters["by_tokens_error_percent"] = 100 * (joint / real - 1);
}

void text_of(benchmark::State& state) {
  report(state, texts_of(state.range(0), kCapacity.count / state.range(0)));
}
BENCHMARK(text_of)->Arg(24)->Arg(100)->Arg(400)->Arg(1600)->UseManualTime()->Iterations(1)->Unit(
    benchmark::kMillisecond);

void pictures_of_side(benchmark::State& state) {
  const std::int64_t side = state.range(0);
  report(state, pictures_of(machine().config, side, 2048 / (side * side)));
}
BENCHMARK(pictures_of_side)
    ->Arg(6)
    ->Arg(14)
    ->Arg(32)
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tributary::train
