#include "train/profile/pass_clock.h"

#include <algorithm>

#include <c10/core/impl/VirtualGuardImpl.h>

#include "config/family/known_modules.h"
#include "core/error.h"
#include "core/stopwatch.h"
#include "mesh/transport/cpu_in_collectives.h"
#include "parallel/unit_chain.h"

namespace tributary::train {
namespace {

using parallel::LayerPass;

void wait_for(at::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeStream(guard.getStream(device));
}

constexpr const char* kLayers = ".layers.";

/// The number in the name of a unit, or of its adapters: 3 of vision.layers.3.
std::int64_t layer_of(const parallel::Unit& unit) {
  return std::stoll(unit.name().substr(unit.module().size() + std::string(kLayers).size()));
}

}  // namespace

LayerKey key_of_unit(const config::ModelConfig& config, const parallel::Unit& unit) {
  const std::string& name = unit.name();
  const std::string& module = unit.module();
  const bool is_layer = name.starts_with(module + kLayers);
  switch (config::find_known_module(module)->role) {
    case config::ModuleRole::kProjector:
      return {module, "projector"};
    case config::ModuleRole::kEncoder: {
      if (!is_layer) return {module, "patch_embedding"};
      const std::vector<config::FrontModule> front = config::front_modules(config);
      const bool has_windows =
          std::ranges::count(config::find_module(front, module)->window_layers, layer_of(unit)) > 0;
      return {module, has_windows ? "window_block" : "block"};
    }
    case config::ModuleRole::kBackbone:
      break;
  }
  if (is_layer) return {module, "block"};
  return {module, name.ends_with(".embed") ? "embedding" : "head"};
}

PassClock::PassClock(model::Model& model, LiveBytes& bytes, at::Device device)
    : layout_(model.layout()),
      config_(model.config()),
      bytes_(bytes),
      device_(device),
      head_is_embedding_(model.config().backbone.tied_head &&
                         model.layout().virtual_stages() == 1) {
  TRIB_CHECK(layout_.chain && layout_.chain->observer() == nullptr,
             .what = "train: model cannot be observed");
  layout_.chain->set_observer(this);
}

PassClock::~PassClock() { layout_.chain->set_observer(nullptr); }

double PassClock::now() const {
  wait_for(device_);
  return counts_cpu_ ? thread_cpu_seconds() - mesh::cpu_seconds_in_collectives()
                     : now_seconds() - layout_.mesh->all_ranks().traffic().waited;
}

LayerMark PassClock::mark() const {
  return {.layer = {},
          .time = now(),
          .attention = attention_,
          .live = bytes_.now(),
          .peak = bytes_.take_peak()};
}

void PassClock::begin() {
  stretch_ = {};
  embedding_seen_.clear();
  stretch_.begin = mark();
}

MarkedStretch PassClock::end() {
  stretch_.end = mark();
  return std::move(stretch_);
}

void PassClock::on_pass(const parallel::Unit& unit, LayerPass pass) {
  LayerMark now = mark();
  now.pass = pass;
  now.layer = key_of(unit, pass);
  stretch_.marks.push_back(std::move(now));
}

void PassClock::on_attention(parallel::AttentionMark mark) {
  if (!times_attention_) return;
  if (mark == parallel::AttentionMark::kBegin)
    attention_began_ = now();
  else
    attention_ += now() - attention_began_;
}

LayerKey PassClock::key_of(const parallel::Unit& unit, LayerPass pass) {
  LayerKey key = key_of_unit(config_, unit);
  if (key.layer != "embedding" || !head_is_embedding_) return key;
  // A tied head is the last use of the embedding, so backward comes to it first.
  const bool is_first = embedding_seen_.insert(pass).second;
  if (is_first == (pass != LayerPass::kForward)) key.layer = "head";
  return key;
}

}  // namespace tributary::train
