#include "tests/train/equality/cell.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <ATen/ATen.h>

#include "config/family/all_families.h"
#include "config/run/adapter.h"
#include "core/text.h"
#include "schedule/order/all_orders.h"
#include "tests/train/equality/trainee.h"
#include "train/start/ranks.h"

namespace tributary::train {
namespace {

std::map<std::string, at::Tensor> whole_gradients(const model::Model& model) {
  std::map<std::string, at::Tensor> gradients;
  for (const auto& unit : model.units())
    for (const auto& parameter : unit->parameters())
      if (unit->trainable()) gradients[parameter->name] = unit->gradient_of(*parameter);
  return gradients;
}

at::Tensor cut(at::Tensor whole, const Box& box) {
  for (std::size_t i = 0; i < box.lengths.size(); ++i)
    whole = whole.narrow(static_cast<std::int64_t>(i), box.offsets[i], box.lengths[i]);
  return whole;
}

/// Root mean square of a gradient that is nothing but rounding: of key biases without rotary
/// positions the exact one is 0.
constexpr double kZeroGradient = 1e-7;

/// Squared deviations, squares and elements of what this rank holds of each parameter, in the
/// model's order.
std::vector<double> compare_own(const model::Model& model,
                                const std::map<std::string, at::Tensor>& expected) {
  std::vector<double> sums;
  for (const auto& unit : model.units()) {
    if (!unit->trainable()) continue;
    for (const auto& parameter : unit->parameters()) {
      double deviation = 0;
      double square = 0;
      std::int64_t elements = 0;
      for (const auto& [box, first] : unit->boxes_of(*parameter)) {
        const at::Tensor wanted = cut(expected.at(parameter->name), box).to(at::kDouble);
        const at::Tensor found = unit->shard_gradient()
                                     .narrow(0, first, wanted.numel())
                                     .view(box.lengths)
                                     .to(at::kCPU, at::kDouble);
        deviation += (found - wanted).square().sum().item<double>();
        square += wanted.square().sum().item<double>();
        elements += wanted.numel();
      }
      sums.push_back(deviation);
      sums.push_back(square);
      sums.push_back(static_cast<double>(elements));
    }
  }
  return sums;
}

std::vector<std::string> trained_names(const model::Model& model) {
  std::vector<std::string> names;
  for (const auto& unit : model.units())
    for (const auto& parameter : unit->parameters())
      if (unit->trainable()) names.push_back(parameter->name);
  return names;
}

}  // namespace

std::string Cell::name() const {
  std::string name(config::entry_of(text).model_type);
  if (sees) name = "qwen2_5_vl";
  if (sees && tower == config::VisionClass::kQwen2Vl) name = "qwen2_vl";
  if (sees && tower == config::VisionClass::kQwen3Vl) name = "qwen3_vl";
  if (sees && tower == config::VisionClass::kInternVit) name = "internvl";
  if (sees && tower == config::VisionClass::kSiglip) name = "llava_onevision";
  if (hears) name = sees ? "qwen2_5_omni" : "qwen2_audio";
  const auto add = [&](const char* axis, std::int64_t degree) {
    if (degree > 1) name += str(" ", axis, degree);
  };
  if (shape.pp > 1) name += str(" pp", shape.pp, " ", schedule::traits_of(order).name);
  if (vision_stages > 0) name += " vision_apart";
  if (vision) name += str(" ", encoder(), "(", config::describe(*vision), ")");
  if (audio) name += str(" audio(", config::describe(*audio), ")");
  for (const std::int64_t passes : {vision_passes, audio_passes})
    if (passes > 0) name += str(" colocated:", passes);
  if (vision_turns || audio_turns) name += " turns";
  if (virtual_stages > 1) name += str(" virtual", virtual_stages);
  if (ties_head) name += " tied";
  add("dp_replicate", shape.dp_replicate);
  add("dp_shard", shape.dp_shard);
  add("cp", shape.cp);
  add("ulysses", shape.ulysses);
  add("tp", shape.tp);
  for (const std::string& module : freeze) name += " frozen:" + module;
  if (adapter.kind != config::AdapterKind::kNone) name += " " + config::describe_adapter(adapter);
  if (optimizer == config::OptimizerKind::kMuon) name += " muon";
  for (const config::ModuleRecompute& each : recompute) name += " recompute:" + word_of(each);
  if (samples != 6) name += str(" samples:", samples);
  if (!releases) name += " kept";
  if (ulysses_async) name += " async";
  if (shards_optimizer) name += " zero1";
  for (const std::string& module : offload) name += " offload:" + module;
  if (chunks_head) name += " chunks";
  if (balance == config::Balance::kLpt) name += " lpt";
  if (balance == config::Balance::kLpt2d) name += " lpt_2d";
  if (microbatches > 0) name += str(" level:", microbatches);
  if (compares_pairs) name += " pairs";
  if (prefetch != 1) name += str(" prefetch:", prefetch);
  return name;
}

std::int64_t count_state_bytes(const mesh::Mesh& mesh) {
  const auto model = model::make_model(tiny_model_config(/*sees=*/true), lay_out_on(mesh, {}));
  std::size_t bytes = 0;
  for (const auto& unit : model->units()) unit->materialize(at::kCPU, at::kFloat, true);
  const auto optimizer = make_optimizer({}, model->units());
  for (const auto& unit : model->units())
    bytes += unit->shard_value().nbytes() + unit->shard_gradient().nbytes();
  for (const NamedTensor& tensor : optimizer->state()) bytes += tensor.value.nbytes();
  return static_cast<std::int64_t>(bytes);
}

Deviation run_cell(const mesh::World& world, const Cell& cell) {
  const mesh::World one_rank;
  Trainee expected(cell, one_rank);
  Trainee found(cell, world);
  const std::vector<std::string> names = trained_names(found.model());
  Deviation worst;
  for (int step = 0; step < cell.steps; ++step) {
    const double wanted_loss = expected.differentiate(step);
    const double loss = found.differentiate(step);
    worst.loss = std::max(worst.loss, std::abs(loss - wanted_loss) / std::abs(wanted_loss));
    const std::vector<double> sums =
        world.all().sum(compare_own(found.model(), whole_gradients(expected.model())));
    for (std::size_t i = 0; i < names.size(); ++i) {
      const double rounding = kZeroGradient * kZeroGradient * sums[3 * i + 2];
      const double deviated = sums[3 * i];
      const double square = sums[3 * i + 1];
      if (square <= rounding && deviated <= rounding) continue;
      const double deviation = square > rounding ? std::sqrt(deviated / square) : INFINITY;
      if (deviation <= worst.gradient) continue;
      worst.gradient = deviation;
      worst.parameter = names[i];
    }
    (void)expected.update();
    (void)found.update();
  }
  return worst;
}

}  // namespace tributary::train
