#include <benchmark/benchmark.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/generate.h"
#include "model/model.h"

namespace tributary::model {
namespace {

/// A model about the size of the demo's backbone.
config::ModelConfig small_config() {
  config::ModelConfig config;
  config.family = config::ModelFamily::kQwen2;
  config.backbone = {.layers = 4,
                     .width = 128,
                     .heads = 4,
                     .kv_heads = 2,
                     .head_width = 32,
                     .mlp_width = 384,
                     .vocab = 1024,
                     .max_positions = 4096,
                     .rope_theta = 1e6,
                     .norm_epsilon = 1e-6,
                     .qkv_bias = true,
                     .qk_norm = false,
                     .tied_head = true,
                     .mrope_section = {},
                     .initializer_range = 0.02};
  return config;
}

std::unique_ptr<Model> make_small_model() {
  auto model = make_model(small_config());
  for (const auto& unit : model->units()) unit->materialize(at::kCPU, at::kFloat, true);
  initialize(*model, 1);
  return model;
}

PackedBatch make_pack(std::int64_t samples, std::int64_t length) {
  PackedBatch batch;
  batch.input_ids = at::randint(0, 1024, {samples * length}, at::kLong);
  batch.position_ids = at::arange(length, at::kLong).repeat({samples}).unsqueeze(0).expand({3, -1});
  for (std::int64_t i = 0; i <= samples; ++i)
    batch.cu_seqlens.push_back(static_cast<std::int32_t>(i * length));
  return batch;
}

/// Runs forward, loss on every fourth token, backward. Arguments: samples, tokens of each.
void train_step(benchmark::State& state) {
  const auto model = make_small_model();
  const PackedBatch batch = make_pack(state.range(0), state.range(1));
  at::Tensor targets = at::where(at::arange(batch.input_ids.size(0)).remainder(4) == 0,
                                 batch.input_ids, at::full({}, -100, at::kLong));
  for (auto _ : state) {
    const LossSum loss = sum_loss(*model, model->forward(batch), targets, batch.cu_seqlens);
    torch::autograd::backward({loss.sum});
  }
  state.counters["tokens_per_second"] = benchmark::Counter(
      static_cast<double>(batch.input_ids.size(0)), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(train_step)->Args({51, 40})->Args({16, 128})->Args({1, 2048})->UseRealTime();

/// Decodes answers of 8 tokens to prompts of 40. Argument: samples.
void answer(benchmark::State& state) {
  const auto model = make_small_model();
  const PackedBatch prompts = make_pack(state.range(0), 40);
  for (auto _ : state) benchmark::DoNotOptimize(generate(*model, prompts, {.max_new_tokens = 8}));
  state.counters["answers_per_second"] = benchmark::Counter(
      static_cast<double>(state.range(0)), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(answer)->Arg(1)->Arg(64)->Arg(256)->UseRealTime();

}  // namespace
}  // namespace tributary::model
