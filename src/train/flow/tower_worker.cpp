#include "train/flow/tower_worker.h"

#include <utility>

#include <ATen/ATen.h>

#include "core/error.h"
#include "core/log.h"

namespace tributary::train {

TowerWorker::TowerWorker(model::Model& model, const FlowModule& module,
                         memory::PoolProducer& producer, Load load, std::int64_t piece_bytes,
                         std::int64_t global_samples)
    : model_(model),
      module_(module),
      producer_(producer),
      load_(std::move(load)),
      global_samples_(global_samples),
      tower_(model, module.name),
      values_{.bytes = tower_.value_bytes().count, .piece_bytes = piece_bytes},
      gradient_{.bytes = tower_.gradient_bytes().count, .piece_bytes = piece_bytes} {}

bool TowerWorker::has_weights(std::uint64_t step) {
  if (step_ == step) return true;
  if (step != producer_.low()) return false;  // those of later steps are not made yet
  if (std::exchange(coming_step_, step) != step) coming_.clear();
  const std::int64_t first_sample = static_cast<std::int64_t>(step) * global_samples_;
  const auto key = [&](std::int64_t piece) {
    return key_of(module_, TowerObject::kWeights, first_sample, step, piece);
  };
  for (std::int64_t piece = 0; piece < values_.count(); ++piece) producer_.ask(key(piece), step);
  while (std::ssize(coming_) < values_.count()) {
    std::optional<memory::PoolObject> object = producer_.take(key(std::ssize(coming_)));
    if (!object) return false;
    coming_.push_back(std::move(*object));
  }
  const at::Tensor values = values_.join(coming_, tower_.value_options());
  coming_.clear();
  if (!values.defined()) return false;
  tower_.set_values(values);
  kept_.clear();
  step_ = step;
  return true;
}

at::Tensor TowerWorker::encode(const data::EncodedSample& sample) {
  const at::AutoGradMode grad_mode(true);
  Kept& kept = kept_[sample.id];
  kept = {.mark = record_mark(sample),
          .features = run_tower(model_, module_, sample, model_.device())};
  return kept.features.detach().contiguous().cpu();
}

void TowerWorker::take(memory::PoolProducer::Task task) {
  const auto first_sample = static_cast<std::int64_t>(task.key.sample);
  Group& group = groups_[first_sample];
  group.step = task.step;
  producer_.ask(key_of(module_, TowerObject::kFeatureGradients, first_sample, task.step),
                task.step);
  group.tasks.push_back(std::move(task));
}

bool TowerWorker::make_gradient() {
  for (auto& [first_sample, group] : groups_) {
    std::erase_if(group.tasks, [this](const memory::PoolProducer::Task& task) {
      const bool comes_again = producer_.is_cancelled(task);
      if (comes_again) producer_.drop(task);
      return comes_again;
    });
    if (group.tasks.empty() || !has_weights(group.step)) continue;
    if (!group.given)
      group.given =
          producer_.take(key_of(module_, TowerObject::kFeatureGradients, first_sample, group.step));
    if (!group.given) continue;
    try {
      give(group, gradient_by(*group.given));
    } catch (const Error& error) {
      log_warning(str("train: the gradient by sample ", first_sample,
                      " and others is left to the run: ", error.what()));
      for (const memory::PoolProducer::Task& task : group.tasks) producer_.drop(task);
    }
    group.tasks.clear();
    return true;
  }
  return false;
}

at::Tensor TowerWorker::gradient_by(const memory::PoolObject& group) {
  const at::AutoGradMode grad_mode(true);
  TRIB_REQUIRE(group.fields.bytes > 0, .what = "train: the run does not give its gradients");
  tower_.clear_gradient();
  for (const FeatureGradient& each :
       read_group(group.bytes.span(), group.fields.tokens, model_, module_)) {
    Kept kept;
    if (auto node = kept_.extract(each.sample)) kept = std::move(node.mapped());
    if (!kept.features.defined() || kept.mark != each.mark) {
      const data::EncodedSample sample = load_(each.sample);
      TRIB_REQUIRE(record_mark(sample) == each.mark,
                   .what = "train: the run has read another record",
                   .where = str("sample ", each.sample));
      kept.features = run_tower(model_, module_, sample, model_.device());
    }
    run_tower_backward(kept.features, each);
  }
  return tower_.gradient().cpu();
}

void TowerWorker::give(Group& group, const at::Tensor& gradient) {
  for (const memory::PoolProducer::Task& task : group.tasks) {
    const std::span<const std::byte> piece = gradient_.of(gradient, task.key.dataset_epoch);
    producer_.finish(task, piece, {});
  }
}

void TowerWorker::forget_before(std::uint64_t step) {
  std::erase_if(groups_, [&](auto& each) {
    if (each.second.step >= step) return false;
    for (const memory::PoolProducer::Task& task : each.second.tasks) producer_.drop(task);
    return true;
  });
}

}  // namespace tributary::train
