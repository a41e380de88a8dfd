#include "train/flow/flow.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <thread>
#include <utility>

#include <ATen/ATen.h>

#include "config/family/known_modules.h"
#include "core/error.h"
#include "core/log.h"
#include "core/stopwatch.h"
#include "ops/to_device.h"
#include "train/flow/flow_identity.h"

namespace tributary::train {
namespace {

/// The number by which the pool knows a rank that takes features; -1: it takes none. Ranks of one
/// tp group take the same objects.
std::int64_t consumer_of(const mesh::Mesh& backbone) {
  if (!backbone.is_here() || backbone.at().pp != 0) return -1;
  return backbone.data_index() * backbone.shape().tp + backbone.at().tp;
}

std::uint32_t count_consumers(const mesh::Mesh& backbone) {
  return static_cast<std::uint32_t>(backbone.data_ranks() * backbone.shape().tp);
}

/// Whether an object is what the features of this sample must be.
bool fits(const memory::WireHandle& found, const at::Tensor& like, std::int64_t rows) {
  return found.dims == 2 && found.shape[0] == rows && found.shape[1] == like.size(1) &&
         found.dtype == static_cast<std::uint8_t>(element_type(like.scalar_type())) &&
         static_cast<std::int64_t>(found.bytes) == rows * like.size(1) * like.element_size();
}

}  // namespace

std::uint64_t page_bytes_of(const model::Model& model, std::span<const FlowModule> modules) {
  constexpr std::int64_t kWide = 2048;
  const bool any_wide = std::ranges::any_of(
      modules, [&](const FlowModule& module) { return model.feature_width(module.name) > kWide; });
  return std::uint64_t{any_wide ? 256U : 64U} << 10;
}

Flow::Flow(const config::RunConfig& config, std::vector<FlowModule> modules)
    : config_(config), modules_(std::move(modules)) {}
Flow::~Flow() = default;

void Flow::open(model::Model& model, const mesh::Mesh& backbone, const data::Loader& loader) {
  model_ = &model;
  page_bytes_ = page_bytes_of(model, modules_);
  const auto first_step = static_cast<std::uint64_t>(step_of(loader.next_index()));
  next_planned_ = first_step;
  const std::string directory = pool_directory(config_);
  if (backbone.world().index() == 0) {
    std::map<std::string, std::string> weights;
    for (const FlowModule& module : modules_)
      weights[module.name] = digest_weights(model, module.name);
    std::filesystem::create_directories(directory);
    std::filesystem::permissions(directory, std::filesystem::perms::owner_all);
    write_flow_identity(directory, flow_identity(config_, loader, weights));
    controller_ = std::make_unique<memory::PoolController>(memory::PoolControllerOptions{
        .directory = directory,
        .bind = config_.pool.bind,
        .consumers = count_consumers(backbone),
        .first_step = first_step,
        .window = static_cast<std::uint64_t>(config_.pool.ahead),
        .page_bytes = page_bytes_,
        .reserve_pages = most_pages(),
    });
  }
  (void)backbone.world().sum(std::vector<std::int64_t>{0});  // the controller listens
  if (const std::int64_t consumer = consumer_of(backbone); consumer >= 0)
    reader_ = std::make_unique<memory::PoolReader>(
        memory::PoolReaderOptions{.directory = directory,
                                  .consumer = static_cast<std::uint32_t>(consumer),
                                  .first_step = first_step,
                                  .ahead = static_cast<std::uint64_t>(config_.pool.ahead)});
  tensor_ranks_ = static_cast<std::uint32_t>(backbone.shape().tp);
  if (config_.pool.encoders > 0) wait_for_encoders(backbone.world());
  keeps_ = config_.objective.compares_pairs();
}

void Flow::wait_for_encoders(const mesh::Group& world) const {
  const Stopwatch watch;
  const auto is_over = [&] {
    return controller_->counts().producers >= static_cast<std::uint64_t>(config_.pool.encoders) ||
           watch.seconds() > config_.parallel.bootstrap_timeout_seconds;
  };
  // Rank 0 looks for all. Each collective is short, as those that wait may not be silent for long.
  while (world.largest({controller_ && is_over() ? 1 : 0}).front() == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (!controller_) return;
  const std::uint64_t found = controller_->counts().producers;
  if (found < static_cast<std::uint64_t>(config_.pool.encoders))
    log_warning(str("train: ", found, " of ", config_.pool.encoders, " encoders have come in ",
                    config_.parallel.bootstrap_timeout_seconds, " s; the run goes on"));
}

std::uint64_t Flow::most_pages() const {
  // A quarter of an encoder's memory, so that it can work on one object while others wait.
  return std::max<std::uint64_t>(
      1, (static_cast<std::uint64_t>(config_.pool.encoder_mib) << 20) / 4 / page_bytes_);
}

std::int64_t Flow::step_of(std::int64_t first_index) const {
  return first_index / config_.batch.global_samples;
}

void Flow::plan(const DealtBatch& batch) {
  if (!controller_) return;
  memory::StepPlanned planned;
  planned.plan.step = static_cast<std::uint64_t>(step_of(batch.first_index));
  // A batch whose headers could not be read ends the run when it is handed out, and has no plan.
  if (planned.plan.step != next_planned_) return;
  ++next_planned_;
  std::vector<std::vector<memory::Key>> keys(batch.shapes.size());
  for (std::size_t i = 0; i < batch.shapes.size(); ++i)
    for (const FlowModule& module : modules_) {
      const std::uint64_t pages = pages_of(module, batch.shapes[i]);
      if (pages == 0 || pages > most_pages()) continue;  // nothing to make, or made here
      keys[i].push_back(key_of(module, batch.first_index + static_cast<std::int64_t>(i)));
      planned.objects.push_back(
          {.key = keys[i].back(), .pages = static_cast<std::uint32_t>(pages)});
    }
  for (std::size_t replica = 0; replica < batch.microbatches.size(); ++replica) {
    const schedule::PackedBins& bins = batch.microbatches[replica];
    for (std::int64_t bin = 0; bin < bins.bins(); ++bin) {
      memory::PlannedMicrobatch microbatch{.order = static_cast<std::uint32_t>(bin)};
      for (const std::int32_t sample : bins.bin(bin)) {
        const auto& own = keys[static_cast<std::size_t>(sample)];
        microbatch.keys.insert(microbatch.keys.end(), own.begin(), own.end());
      }
      for (std::uint32_t tp = 0; tp < tensor_ranks_; ++tp) {
        microbatch.dp_rank = static_cast<std::uint32_t>(replica) * tensor_ranks_ + tp;
        planned.plan.microbatches.push_back(microbatch);
      }
    }
  }
  controller_->plan(std::move(planned));
}

ModalitySet Flow::takes() const {
  ModalitySet taken;
  for (const FlowModule& module : modules_) taken |= ModalitySet(module.takes);
  return taken;
}

std::uint64_t Flow::pages_of(const FlowModule& module, const SampleShape& shape) const {
  const auto bytes = static_cast<std::uint64_t>(feature_bytes(*model_, module, shape).count);
  return (bytes + page_bytes_ - 1) / page_bytes_;
}

at::Tensor Flow::take_from_pool(const FlowModule& module, const data::EncodedSample& sample) {
  const Stopwatch watch;
  const double patience = waits_ ? config_.pool.patience_seconds : 0;
  std::optional<memory::PoolObject> object = reader_->take(
      key_of(module, sample.id), Nanoseconds{static_cast<std::int64_t>(patience * 1e9)});
  const double waited = watch.seconds();
  use_.starved += waited;
  // Whoever has waited in vain once may wait so for each of a thousand samples.
  if (!object && waited >= config_.pool.patience_seconds) waits_ = false;
  if (!object) return {};
  const at::TensorOptions options = model_->units().front()->whole_options();
  const std::vector<std::int64_t> rows = feature_rows(*model_, module, sample.shape());
  const std::int64_t all = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  const at::Tensor like = at::empty({0, model_->feature_width(module.name)}, options);
  if (!fits(object->fields, like, all)) return {};  // of the record that this sample stands for
  use_.objects += 1;
  use_.bytes += static_cast<std::int64_t>(object->bytes.size());
  auto bytes = std::make_shared<decltype(object->bytes)>(std::move(object->bytes));
  const at::Tensor host = at::from_blob(
      bytes->data(), {all, like.size(1)}, [bytes](void*) {}, options.device(at::kCPU));
  return ops::to_device(host, options.device());
}

at::Tensor Flow::features_of(const FlowModule& module, const data::EncodedSample& sample) {
  const std::uint64_t pages = pages_of(module, sample.shape());
  if (pages == 0) return {};
  const memory::Key key = key_of(module, sample.id);
  if (auto kept = kept_.extract(key)) return kept.mapped();
  at::Tensor features;
  if (pages <= most_pages()) features = take_from_pool(module, sample);
  if (!features.defined()) {
    const Stopwatch watch;
    features = encode_features(*model_, module, sample, model_->device());
    use_.encoded_here += 1;
    use_.encoding += watch.seconds();
  }
  if (keeps_) kept_[key] = features;
  return features;
}

model::Features Flow::take(std::span<const data::EncodedSample* const> samples) {
  model::Features features;
  for (const FlowModule& module : modules_) {
    std::vector<at::Tensor> of_samples;
    for (const data::EncodedSample* sample : samples)
      of_samples.push_back(features_of(module, *sample));
    if (at::Tensor joined = join_features(*model_, module, samples, of_samples); joined.defined())
      features[module.name] = std::move(joined);
  }
  return features;
}

FlowUse Flow::finish_step(std::int64_t first_index) {
  if (controller_) {
    const memory::PoolCounts counts = controller_->counts();
    use_.encoders = static_cast<std::int64_t>(counts.producers);
    use_.pool_bytes = static_cast<std::int64_t>(counts.pages_used * page_bytes_);
  }
  if (reader_) reader_->finish_step(static_cast<std::uint64_t>(step_of(first_index)));
  kept_.clear();
  waits_ = true;
  return std::exchange(use_, {});
}

void Flow::finish() {
  if (controller_) controller_->finish();
}

}  // namespace tributary::train
