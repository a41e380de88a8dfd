#pragma once

#include "tests/cost/small_plans.h"

namespace tributary::cost {

/// Images and sound, each with a projector of its own.
inline config::ModuleGraph omni_model() {
  config::ModuleGraph model = small_model(4, true);
  config::ModuleNode& vision = model.modules.back();
  config::ModuleNode audio{.name = "audio", .layers = {vision.layers.front()}};
  const auto first = [](config::LayerKind kind) {
    return config::LayerRun{.shape = {.kind = kind, .input_width = 600, .width = 1024}};
  };
  audio.layers.front().layers = 3;
  audio.layers.insert(audio.layers.begin(), first(config::LayerKind::kConvolution));
  vision.layers.insert(vision.layers.begin(), first(config::LayerKind::kPatchEmbedding));
  config::ModuleNode projector{.name = "projector_a",
                               .layers = {first(config::LayerKind::kProjector)}};
  projector.layers.front().shape.input_width = 1024;
  model.modules.push_back(projector);
  projector.name = "projector_v";
  model.modules.push_back(projector);
  model.modules.insert(model.modules.begin(), audio);
  model.edges = {{.from = "audio", .to = "projector_a"},
                 {.from = "projector_a", .to = "backbone"},
                 {.from = "projector_v", .to = "backbone"},
                 {.from = "vision", .to = "projector_v"}};
  return model;
}

/// Encoders on ranks of their own, or in the backbone's first stage.
inline config::Plan omni_plan(bool is_inline) {
  config::Plan plan = vision_plan();
  config::ModulePlan audio = *plan.find("vision");
  audio.name = "audio";
  for (std::int64_t& rank : audio.ranks) rank += 4;
  plan.modules.insert(plan.modules.begin(), audio);
  for (const char* name : {"projector_a", "projector_v"})
    plan.modules.insert(plan.modules.end() - 1, {.name = name});
  for (config::ModulePlan& module : plan.modules) {
    const bool is_encoder = module.name == "audio" || module.name == "vision";
    if (module.name == "backbone" || (is_encoder && !is_inline)) continue;
    module = {.name = module.name, .placement = config::Placement::kInline};
  }
  plan.edges = {{.from = "audio", .to = "projector_a"},
                {.from = "projector_a", .to = "backbone"},
                {.from = "projector_v", .to = "backbone"},
                {.from = "vision", .to = "projector_v"}};
  return plan;
}

}  // namespace tributary::cost
