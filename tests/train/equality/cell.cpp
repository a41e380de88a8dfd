#include "tests/train/equality/cell.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <ATen/ATen.h>

#include "core/random.h"
#include "core/text.h"
#include "parallel/unit_chain.h"
#include "schedule/pack.h"
#include "train/gradients.h"
#include "train/optimizer/apply_update.h"
#include "train/ranks.h"

namespace tributary::train {
namespace {

constexpr std::int64_t kImage = 50;
constexpr std::int64_t kPatchWidth = 96;

config::ModelConfig model_config(bool sees) {
  config::ModelConfig config;
  config.family = sees ? config::ModelFamily::kQwen2_5Vl : config::ModelFamily::kQwen3;
  config.backbone = {.layers = 2,
                     .width = 32,
                     .heads = 4,
                     .kv_heads = kKvHeads,
                     .head_width = 8,
                     .mlp_width = 48,
                     .vocab = 61,  // no multiple of any number of ranks
                     .max_positions = 256,
                     .rope_theta = 1e4,
                     .norm_epsilon = 1e-6,
                     .qkv_bias = sees,
                     .qk_norm = !sees,
                     .tied_head = !sees,
                     .mrope_section = {},
                     .initializer_range = 0.2};
  if (!sees) return config;
  config.backbone.mrope_section = {2, 1, 1};
  config::VisionConfig& vision = config.vision.emplace();
  vision.layers = 2;
  vision.width = 16;
  vision.heads = 4;
  vision.mlp_width = 24;
  vision.output_width = 32;
  vision.patch = 4;
  vision.window = 16;
  vision.full_attention_layers = {1};
  vision.initializer_range = 0.2;
  config.tokens.image_pad = kImage;
  config.tokens.video_pad = kImage + 1;
  return config;
}

/// Text of random length, two of three with an image: some ranks see none.
data::EncodedSample make_sample(bool sees, int step, std::int64_t index) {
  RandomStream stream(7, str("sample ", step), static_cast<std::uint64_t>(index));
  data::EncodedSample sample;
  sample.key = str("made:", step, ".", index);
  const auto append = [&](std::int64_t count, bool is_target) {
    for (std::int64_t i = 0; i < count; ++i) {
      sample.tokens.push_back(static_cast<std::int32_t>(stream.between(0, kImage - 1)));
      sample.targets.push_back(is_target ? stream.between(0, 60) : data::kIgnoredTarget);
    }
  };
  append(stream.between(1, 6), false);
  if (sees && index % 3 != 0) {
    const Grid grid{1, static_cast<std::int32_t>(2 * stream.between(1, 4)),
                    static_cast<std::int32_t>(2 * stream.between(1, 4))};
    data::PatchedItem item;
    item.grid = grid;
    for (std::int64_t i = 0; i < grid.patches() * kPatchWidth; ++i)
      item.rows.push_back(static_cast<float>(stream.normal()));
    for (std::int64_t i = 0; i < grid.patches() / 4; ++i) {
      sample.tokens.push_back(static_cast<std::int32_t>(kImage));
      sample.targets.push_back(data::kIgnoredTarget);
    }
    sample.items.push_back(std::move(item));
  }
  append(stream.between(2, 9), true);
  return sample;
}

/// One model in training on some mesh.
class Trainee {
 public:
  Trainee(const Cell& cell, const mesh::Mesh& mesh) : cell_(cell), mesh_(mesh) {
    config_.optimizer.learning_rate = 1e-3;
    config_.optimizer.clip_norm = 1;
    config_.run.steps = cell.steps;
    config_.model.recompute = cell.recompute;
    config_.parallel.prefetch = cell.prefetch;
    config_.parallel.ulysses_async = cell.ulysses_async;
    config_.parallel.release =
        cell.releases ? config::Release::kAfterForward : config::Release::kNever;
    model_ = model::make_model(model_config(cell.sees), lay_out(config_, mesh));
    for (const auto& unit : model_->units())
      unit->materialize(at::kCPU, at::kFloat, std::ranges::count(cell.freeze, unit->module()) == 0);
    model::initialize(*model_, /*seed=*/3);
    model_->set_recompute(cell.recompute);
    optimizer_.emplace(model_->units(), config_.optimizer);
  }

  /// Leaves the gradients in the units' shards. Returns the loss.
  double differentiate(int step) {
    std::vector<data::EncodedSample> samples;
    std::vector<Tokens> lengths;
    for (std::int64_t i = 0; i < cell_.samples; ++i) {
      if (i % mesh_.data_ranks() != mesh_.data_index()) continue;
      samples.push_back(make_sample(cell_.sees, step, i));
      lengths.push_back({static_cast<std::int64_t>(samples.back().tokens.size())});
    }
    const schedule::PackedBins bins =
        schedule::pack(config::Packing::kBestFitDecreasing, lengths, Tokens{60});
    loss_ = accumulate_gradients(*model_, samples, bins, {}).loss;
    return loss_;
  }
  void update() { (void)apply_update(*model_, *optimizer_, config_, loss_); }
  [[nodiscard]] const model::Model& model() const { return *model_; }

 private:
  const Cell& cell_;
  const mesh::Mesh& mesh_;
  config::RunConfig config_;
  std::unique_ptr<model::Model> model_;
  std::optional<AdamW> optimizer_;
  double loss_ = 0;
};

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

/// Squared deviations and squares of what this rank holds of each parameter, in the model's order.
std::vector<double> compare_own(const model::Model& model,
                                const std::map<std::string, at::Tensor>& expected) {
  std::vector<double> sums;
  for (const auto& unit : model.units()) {
    if (!unit->trainable()) continue;
    for (const auto& parameter : unit->parameters()) {
      double deviation = 0;
      double square = 0;
      for (const auto& [box, first] : unit->boxes_of(*parameter)) {
        const at::Tensor wanted = cut(expected.at(parameter->name), box).to(at::kDouble);
        const at::Tensor found = unit->shard_gradient()
                                     .narrow(0, first, wanted.numel())
                                     .view(box.lengths)
                                     .to(at::kDouble);
        deviation += (found - wanted).square().sum().item<double>();
        square += wanted.square().sum().item<double>();
      }
      sums.push_back(deviation);
      sums.push_back(square);
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
  std::string text = sees ? "qwen2_5_vl" : "qwen3";
  const auto add = [&](const char* axis, std::int64_t degree) {
    if (degree > 1) text += str(" ", axis, degree);
  };
  add("dp_replicate", shape.dp_replicate);
  add("dp_shard", shape.dp_shard);
  add("cp", shape.cp);
  add("ulysses", shape.ulysses);
  add("tp", shape.tp);
  for (const std::string& module : freeze) text += " frozen:" + module;
  for (const std::string& module : recompute) text += " recompute:" + module;
  if (samples < 6) text += str(" samples:", samples);
  if (!releases) text += " kept";
  if (ulysses_async) text += " async";
  if (prefetch != 1) text += str(" prefetch:", prefetch);
  return text;
}

std::int64_t count_state_bytes(const mesh::Mesh& mesh) {
  const auto model = model::make_model(model_config(/*sees=*/true), lay_out({}, mesh));
  std::size_t bytes = 0;
  for (const auto& unit : model->units()) unit->materialize(at::kCPU, at::kFloat, true);
  const AdamW optimizer(model->units(), {});
  for (const auto& unit : model->units())
    bytes += unit->shard_value().nbytes() + unit->shard_gradient().nbytes();
  for (const NamedTensor& tensor : optimizer.state()) bytes += tensor.value.nbytes();
  return static_cast<std::int64_t>(bytes);
}

Deviation run_cell(const mesh::Mesh& mesh, const Cell& cell) {
  const mesh::Mesh one_rank;
  Trainee expected(cell, one_rank);
  Trainee found(cell, mesh);
  const std::vector<std::string> names = trained_names(found.model());
  Deviation worst;
  for (int step = 0; step < cell.steps; ++step) {
    const double wanted_loss = expected.differentiate(step);
    const double loss = found.differentiate(step);
    worst.loss = std::max(worst.loss, std::abs(loss - wanted_loss) / std::abs(wanted_loss));
    const std::vector<double> sums =
        mesh.world().sum(compare_own(found.model(), whole_gradients(expected.model())));
    for (std::size_t i = 0; i < names.size(); ++i) {
      const double square = sums[2 * i + 1];
      const double deviation =
          square > 0 ? std::sqrt(sums[2 * i] / square) : (sums[2 * i] > 0 ? INFINITY : 0);
      if (deviation <= worst.gradient) continue;
      worst.gradient = deviation;
      worst.parameter = names[i];
    }
    expected.update();
    found.update();
  }
  return worst;
}

}  // namespace tributary::train
