#include "config/family/known_modules.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace tributary::config {
namespace {

constexpr std::array<KnownModule, 5> kKnown{{{"vision", ModuleRole::kEncoder},
                                             {"audio", ModuleRole::kEncoder},
                                             {"projector", ModuleRole::kProjector},
                                             {"audio_projector", ModuleRole::kProjector},
                                             {kBackboneModule, ModuleRole::kBackbone}}};

std::vector<std::int64_t> window_layers_of(const VisionConfig& vision) {
  std::vector<std::int64_t> layers;
  for (std::int64_t layer = 0; vision.window > 0 && layer < vision.layers; ++layer)
    if (std::ranges::count(vision.full_attention_layers, layer) == 0) layers.push_back(layer);
  return layers;
}

std::vector<std::int64_t> window_layers_of(const AudioConfig& audio) {
  std::vector<std::int64_t> layers(static_cast<std::size_t>(audio.chunk > 0 ? audio.layers : 0));
  std::iota(layers.begin(), layers.end(), 0);
  return layers;
}

}  // namespace

std::span<const KnownModule> known_modules() { return kKnown; }

const KnownModule* find_known_module(std::string_view name) {
  const auto* found = std::ranges::find(kKnown, name, &KnownModule::name);
  return found == kKnown.end() ? nullptr : found;
}

std::vector<std::string> known_module_names() {
  std::vector<std::string> names;
  for (const KnownModule& each : kKnown) names.emplace_back(each.name);
  return names;
}

std::vector<std::string> encoder_names() {
  std::vector<std::string> names;
  for (const KnownModule& each : kKnown)
    if (each.role == ModuleRole::kEncoder) names.emplace_back(each.name);
  std::ranges::sort(names);
  return names;
}

std::vector<FrontModule> front_modules(const ModelConfig& model) {
  std::vector<FrontModule> modules;
  if (const auto& vision = model.vision) {
    modules.push_back({.name = "vision",
                       .role = ModuleRole::kEncoder,
                       .layers = vision->layers,
                       .heads = vision->heads,
                       .mlp_width = vision->mlp_width,
                       .feeds = "projector",
                       .takes = {Modality::kImage, Modality::kVideo},
                       .input_rows = "patches",
                       .row_width = vision->patch_width(),
                       .item = picture_form(*vision),
                       .window_layers = window_layers_of(*vision),
                       .work = count_vision_work});
    modules.push_back({.name = "projector",
                       .feeds = std::string(kBackboneModule),
                       .item = picture_form(*vision),
                       .work = count_merger_work});
  }
  if (const auto& audio = model.audio) {
    // In models that take images too, "projector" is theirs.
    const std::string projector = model.vision ? "audio_projector" : "projector";
    modules.push_back({.name = "audio",
                       .role = ModuleRole::kEncoder,
                       .layers = audio->layers,
                       .heads = audio->heads,
                       .mlp_width = audio->mlp_width,
                       .feeds = projector,
                       .takes = {Modality::kAudio},
                       .input_rows = "frames",
                       .row_width = audio->mel_bins,
                       .item = sound_form(*audio),
                       .window_layers = window_layers_of(*audio),
                       .work = count_audio_work});
    modules.push_back({.name = projector,
                       .feeds = std::string(kBackboneModule),
                       .item = sound_form(*audio),
                       .work = count_audio_projector_work});
  }
  return modules;
}

std::vector<ModuleChain> chains_of(const ModelConfig& model) {
  std::vector<ModuleChain> chains;
  for (FrontModule& module : front_modules(model)) {
    if (module.is_encoder()) chains.push_back({.name = module.name, .rows = module.input_rows});
    chains.back().modules.push_back(std::move(module));
  }
  chains.push_back({.name = std::string(kBackboneModule), .rows = "tokens"});
  return chains;
}

const FrontModule* find_module(std::span<const FrontModule> modules, std::string_view name) {
  const auto found = std::ranges::find(modules, name, &FrontModule::name);
  return found == modules.end() ? nullptr : &*found;
}

}  // namespace tributary::config
