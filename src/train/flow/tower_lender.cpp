#include "train/flow/tower_lender.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "core/error.h"
#include "core/stopwatch.h"
#include "memory/progress/pool_directory.h"
#include "train/flow/flow_terms.h"

namespace tributary::train {
namespace {

constexpr std::int64_t kMaxPieceBytes = std::int64_t{128} << 20;
constexpr Nanoseconds kPatience{5'000'000'000};  // with the own part of the pool

std::int64_t count_rows(const model::Model& model, const FlowModule& module,
                        const SampleShape& shape) {
  std::int64_t rows = 0;
  for (const std::int64_t of_modality : feature_rows(model, module, shape)) rows += of_modality;
  return rows;
}

}  // namespace

TowerLender::TowerLender(const config::RunConfig& config, std::vector<FlowModule> modules,
                         model::Model& model, const mesh::Group& world, Options options)
    : config_(config), model_(model), options_(std::move(options)) {
  piece_bytes_ =
      std::min(kMaxPieceBytes, static_cast<std::int64_t>(options_.max_pages * options_.page_bytes));
  for (FlowModule& module : modules) {
    FlatTower tower(model, module.name);
    const std::vector<std::int64_t> bytes =
        world.largest({tower.value_bytes().count, tower.gradient_bytes().count});
    TRIB_REQUIRE(2 * bytes[1] <= config.pool.encoder_mib << 20,
                 .what = "train: encoders have too little memory for a tower that trains",
                 .where = "pool.encoder_mib", .found = str(config.pool.encoder_mib),
                 .expected = str("at least ", (2 * bytes[1] >> 20) + 1, ": two gradients of ",
                                 module.name, ", and more for each further microbatch of a step"));
    modules_.push_back({.module = std::move(module),
                        .tower = std::move(tower),
                        .values = {.bytes = bytes[0], .piece_bytes = piece_bytes_},
                        .gradient = {.bytes = bytes[1], .piece_bytes = piece_bytes_}});
  }
}

void TowerLender::join() {
  if (options_.consumer < 0) return;
  std::int64_t weights = 0;
  for (const Module& each : modules_) weights += each.values.bytes + 2 * piece_bytes_;
  const auto steps = static_cast<std::uint64_t>(config_.pool.ahead);
  producer_ = std::make_unique<memory::PoolProducer>(memory::PoolProducerOptions{
      .directory = pool_directory(config_),
      .capacity_bytes = steps * static_cast<std::uint64_t>(weights) +
                        (static_cast<std::uint64_t>(config_.pool.encoder_mib) << 20),
      .encoders = UINT32_MAX,
      .engines = pool_engines(config_),
      .process = memory::lender_process(options_.consumers,
                                        static_cast<std::uint32_t>(options_.consumer))});
}

std::uint32_t TowerLender::pages_of(Bytes bytes) const {
  const auto page = static_cast<std::int64_t>(options_.page_bytes);
  return static_cast<std::uint32_t>((bytes.count + page - 1) / page);
}

void TowerLender::plan(const DealtBatch& batch, std::uint64_t step,
                       std::vector<memory::PlannedObject>& objects,
                       std::vector<std::vector<memory::Key>>& keys) const {
  std::uint32_t bundle = 0;
  const auto plan_group = [&](const Module& of, std::size_t replica,
                              std::span<const std::int32_t> members) {
    const auto id_of = [&](std::int32_t member) { return batch.first_index + member; };
    std::vector<std::int64_t> rows;
    for (const std::int32_t member : members)
      if (const std::int64_t own =
              count_rows(model_, of.module, batch.shapes[static_cast<std::size_t>(member)]);
          own > 0)
        rows.push_back(own);
    if (rows.empty()) return;
    ++bundle;
    for (const std::int32_t member : members) {
      const auto place = static_cast<std::size_t>(member);
      const std::uint32_t pages = pages_of(feature_bytes(model_, of.module, batch.shapes[place]));
      if (pages == 0 || pages > options_.max_pages) continue;
      keys[place].push_back(key_of(of.module, TowerObject::kFeatures, id_of(member), step));
      objects.push_back({.key = keys[place].back(), .pages = pages, .bundle = bundle});
    }
    const std::uint32_t lent = pages_of(group_bytes(model_, of.module, rows));
    if (lent > options_.max_pages) return;  // this rank makes the gradient
    const std::int64_t group = id_of(members.front());
    objects.push_back({.key = key_of(of.module, TowerObject::kFeatureGradients, group, step),
                       .pages = lent,
                       .lender = memory::lender_process(options_.consumers,
                                                        static_cast<std::uint32_t>(replica))});
    for (std::int64_t piece = 0; piece < of.gradient.count(); ++piece) {
      const memory::Key key = key_of(of.module, TowerObject::kGradient, group, step, piece);
      keys[static_cast<std::size_t>(members.back())].push_back(key);
      objects.push_back(
          {.key = key, .pages = pages_of({of.gradient.bytes_of(piece)}), .bundle = bundle});
    }
  };
  std::int64_t bins = 0;
  for (const schedule::PackedBins& each : batch.microbatches) bins = std::max(bins, each.bins());
  for (const Module& of : modules_) {
    for (std::int64_t piece = 0; piece < of.values.count(); ++piece)
      objects.push_back(
          {.key = key_of(of.module, TowerObject::kWeights, batch.first_index, step, piece),
           .pages = pages_of({of.values.bytes_of(piece)}),
           .lender = memory::lender_process(options_.consumers, 0)});
    // In the order in which ranks come to them, so that producers make the first ones first.
    for (std::int64_t bin = 0; bin < bins; ++bin)
      for (std::size_t replica = 0; replica < batch.microbatches.size(); ++replica)
        if (const schedule::PackedBins& own = batch.microbatches[replica];
            bin < own.bins() && !own.bin(bin).empty())
          plan_group(of, replica, own.bin(bin));
  }
}

std::optional<memory::PoolProducer::Task> TowerLender::task_of(const memory::Key& key) {
  // An older task of a key was cancelled.
  const auto keep = [this](memory::PoolProducer::Task task) {
    if (const auto cancelled = tasks_.extract(task.key)) producer_->drop(cancelled.mapped());
    tasks_[task.key] = std::move(task);
  };
  for (;;) {
    while (auto task = producer_->next({})) keep(std::move(*task));
    if (auto found = tasks_.extract(key)) return std::move(found.mapped());
    if (!waits_for_tasks_ || producer_->end() != memory::PoolProducer::End::kNone)
      return std::nullopt;
    auto task = producer_->next(kPatience);
    waits_for_tasks_ = task.has_value();
    if (task) keep(std::move(*task));
  }
}

bool TowerLender::lend(const memory::Key& key, std::span<const std::byte> bytes,
                       std::uint32_t tokens) {
  if (!options_.is_planned(key)) return false;
  while (const std::optional<memory::PoolProducer::Task> task = task_of(key)) {
    std::size_t room = 0;
    for (const auto& page : task->pages) room += page.size();
    if (bytes.size() > room) {  // records may have been replaced by larger ones
      producer_->drop(*task);
      return false;
    }
    if (producer_->finish(*task, bytes, {.tokens = tokens})) return true;
    // It was cancelled, and comes again.
  }
  return false;
}

void TowerLender::begin_step(std::uint64_t step, std::int64_t first_sample) {
  step_ = step;
  if (!producer_ || options_.consumer != 0) return;
  for (const Module& of : modules_) {
    const at::Tensor values = of.tower.values();
    for (std::int64_t piece = 0; piece < of.values.count(); ++piece)
      (void)lend(key_of(of.module, TowerObject::kWeights, first_sample, step, piece),
                 of.values.of(values, piece), /*tokens=*/0);
  }
}

void TowerLender::take_leaves(const FlowModule& module,
                              std::span<const data::EncodedSample* const> samples,
                              std::span<at::Tensor> features) {
  Group group{.of = &*std::ranges::find(modules_, module.name,
                                        [](const Module& each) { return each.module.name; }),
              .first_sample = samples.front()->id};
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!features[i].defined()) continue;
    features[i] = features[i].detach().requires_grad_();
    group.samples.push_back(samples[i]);
    group.leaves.push_back(features[i]);
  }
  if (!group.samples.empty()) groups_.push_back(std::move(group));
}

void TowerLender::lend_gradients(std::span<const data::EncodedSample* const> samples) {
  for (Group& group : groups_) {
    if (group.first_sample != samples.front()->id) continue;
    for (std::size_t i = 0; i < group.samples.size(); ++i) {
      const at::Tensor& leaf = group.leaves[i];
      group.gradients.push_back(
          {.sample = group.samples[i]->id,
           .mark = record_mark(*group.samples[i]),
           .values = leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf)});
    }
    group.leaves.clear();
    group.is_lent =
        lend(key_of(group.of->module, TowerObject::kFeatureGradients, group.first_sample, step_),
             write_group(group.gradients), static_cast<std::uint32_t>(group.gradients.size()));
  }
  add_groups(/*waits=*/false);
}

at::Tensor TowerLender::take_gradient(Group& group, bool waits) {
  if (!group.is_lent) return {};
  const Module& of = *group.of;
  for (std::int64_t piece = std::ssize(group.pieces); piece < of.gradient.count(); ++piece) {
    const memory::Key key =
        key_of(of.module, TowerObject::kGradient, group.first_sample, step_, piece);
    std::optional<memory::PoolObject> object = options_.take(key, waits);
    if (!object) return {};
    group.pieces.push_back(std::move(*object));
  }
  const at::TensorOptions options = of.tower.gradient_options();
  const at::Tensor row = of.gradient.join(group.pieces, options);
  return row.defined() ? row.to(options.device()) : row;
}

at::Tensor TowerLender::make_gradient(const Group& group) {
  const Stopwatch watch;
  const at::AutoGradMode grad_mode(true);
  FlatTower& tower = group.of->tower;
  tower.clear_gradient();
  for (std::size_t i = 0; i < group.samples.size(); ++i)
    run_tower_backward(run_tower(model_, group.of->module, *group.samples[i], model_.device()),
                       group.gradients[i]);
  options_.use->encoding += watch.seconds();
  options_.use->gradients_here += std::ssize(group.samples);
  return tower.gradient();
}

void TowerLender::add_groups(bool waits) {
  const at::NoGradGuard no_grad;
  for (; !groups_.empty() && !groups_.front().gradients.empty(); groups_.pop_front()) {
    Group& group = groups_.front();
    at::Tensor gradient = take_gradient(group, waits);
    if (gradient.defined())
      options_.use->gradients += std::ssize(group.samples);
    else if (waits)
      gradient = make_gradient(group);
    else
      return;
    at::Tensor& sum = group.of->sum;
    sum = sum.defined() ? sum.add_(gradient) : gradient;
  }
}

void TowerLender::finish_gradients() {
  add_groups(/*waits=*/true);
  for (Module& of : modules_)
    if (const at::Tensor sum = std::exchange(of.sum, {}); sum.defined()) of.tower.set_gradient(sum);
}

void TowerLender::finish_step(std::uint64_t step) {
  groups_.clear();
  waits_for_tasks_ = true;
  std::erase_if(tasks_, [&](const auto& each) {
    if (each.second.step > step) return false;
    producer_->drop(each.second);
    return true;
  });
}

}  // namespace tributary::train
