#pragma once

#include "core/random.h"
#include "plan/search/search_plan.h"
#include "tests/cost/small_plans.h"

namespace tributary::plan {

/// A small model: a backbone, and encoders with a projector in front of it.
inline config::ModuleGraph tiny_model(std::int64_t layers, int encoders, std::int64_t experts = 0) {
  config::LayerShape block{.kind = config::LayerKind::kBlock,
                           .input_width = 512,
                           .width = 512,
                           .heads = 8,
                           .kv_heads = 4,
                           .head_width = 64,
                           .mlp_width = 2048};
  config::LayerShape end{
      .kind = config::LayerKind::kEmbedding, .input_width = 512, .width = 512, .vocab = 16'000};
  config::LayerShape head = end;
  head.kind = config::LayerKind::kHead;
  config::LayerShape tower = block;
  tower.causal = false;
  tower.kv_heads = 8;
  tower.mlp_matrices = 2;
  config::LayerShape patches{
      .kind = config::LayerKind::kPatchEmbedding, .input_width = 588, .width = 512};
  config::LayerShape projector{.kind = config::LayerKind::kProjector,
                               .input_width = 512,
                               .width = 512,
                               .hidden_width = 1024,
                               .merge = 4};
  block.experts = experts;
  if (experts > 0) {
    block.experts_per_token = 2;
    block.mlp_width = 512;
  }
  config::ModuleGraph model{.name = "tiny"};
  model.modules.push_back({.name = "backbone",
                           .layers = {{.shape = end, .layers = 1},
                                      {.shape = block, .layers = layers},
                                      {.shape = head, .layers = 1}}});
  const char* names[] = {"audio", "vision"};
  for (int i = 2 - encoders; i < 2; ++i)
    model.modules.push_back(
        {.name = names[i],
         .layers = {{.shape = patches, .layers = 1}, {.shape = tower, .layers = 2 + i}}});
  if (encoders > 0) {
    model.modules.push_back({.name = "projector", .layers = {{.shape = projector, .layers = 1}}});
    for (int i = 2 - encoders; i < 2; ++i) model.edges.push_back({names[i], "projector"});
    model.edges.push_back({"projector", "backbone"});
    std::sort(model.modules.begin(), model.modules.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
  }
  return model;
}

/// The same with an encoder of sound beside that of images, each with a projector of its own.
inline config::ModuleGraph tiny_omni_model(std::int64_t layers) {
  config::ModuleGraph model = tiny_model(layers, 1);
  config::ModuleNode audio = *model.find("vision");
  config::ModuleNode projector = *model.find("projector");
  audio.name = "audio";
  audio.layers.front().shape.kind = config::LayerKind::kConvolution;
  audio.layers.front().shape.input_width = 240;
  audio.layers.back().layers = 2;
  projector.name = "audio_projector";
  projector.layers.front().shape.merge = 2;
  model.modules.insert(model.modules.begin(), {audio, projector});
  model.edges.insert(model.edges.begin(),
                     {{"audio", "audio_projector"}, {"audio_projector", "backbone"}});
  return model;
}

inline PlanningProblem tiny_problem(std::int64_t devices, std::int64_t samples, int encoders,
                                    std::uint64_t seed) {
  PlanningProblem problem{.model = tiny_model(4, encoders),
                          .cluster = cost::small_cluster(64),
                          .devices = devices,
                          .batches = {}};
  problem.cluster.device.reserve = {1 << 28};
  problem.cluster.device.matrix_ramp_flops = 1e9;
  for (std::uint64_t batch = 0; batch < 2; ++batch) {
    auto& sizes = problem.batches.emplace_back();
    for (std::int64_t i = 0; i < samples; ++i) {
      RandomStream random(seed, "sizes", batch, static_cast<std::uint64_t>(i));
      simulate::SampleSize size{.tokens = random.between(100, 3000)};
      if (encoders > 0) size.patches = 256 * (size.items = random.between(0, 4));
      sizes.push_back(size);
    }
  }
  return problem;
}

/// Images, sound, both or neither in each sample.
inline PlanningProblem tiny_omni_problem(std::int64_t devices, std::int64_t samples,
                                         std::uint64_t seed) {
  PlanningProblem problem = tiny_problem(devices, samples, 1, seed);
  problem.model = tiny_omni_model(4);
  RandomStream random(seed, "clips");
  for (std::vector<simulate::SampleSize>& batch : problem.batches)
    for (simulate::SampleSize& sample : batch)
      sample.frames = random.between(50, 1500) * (sample.clips = random.between(0, 2));
  return problem;
}

/// How samples have images and sound.
enum class Mixed { kFreely, kInTurns, kEqually, kSilent };

inline void mix(PlanningProblem& problem, Mixed how) {
  const simulate::SampleSize first = problem.batches[0][0];
  for (std::vector<simulate::SampleSize>& batch : problem.batches)
    for (std::size_t i = 0; i < batch.size(); ++i) {
      simulate::SampleSize& sample = batch[i];
      if (how == Mixed::kEqually) sample = first;
      if (how == Mixed::kSilent) sample.frames = sample.clips = 0;
      if (how != Mixed::kInTurns) continue;
      if (i % 3 == 0) sample = {.tokens = 9'000};
      if (i % 3 == 1) sample = {.tokens = 1'200, .patches = 4'096, .items = 4};
      if (i % 3 == 2) sample = {.tokens = 900, .frames = 6'000, .clips = 1};
    }
}

}  // namespace tributary::plan
