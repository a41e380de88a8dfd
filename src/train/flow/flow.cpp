#include "train/flow/flow.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>

#include <ATen/ATen.h>

#include "config/family/known_modules.h"
#include "core/error.h"
#include "core/log.h"
#include "core/stopwatch.h"
#include "memory/progress/pool_directory.h"
#include "ops/to_device.h"
#include "train/flow/flow_terms.h"
#include "train/flow/tower_lender.h"
#include "train/metrics/console.h"

namespace tributary::train {
namespace {

/// Ranks of one replica's first stage, which all take the same objects.
std::uint32_t readers_of_replica(const mesh::Mesh& backbone) {
  const config::MeshShape& shape = backbone.shape();
  return static_cast<std::uint32_t>(shape.cp * shape.ulysses * shape.tp);
}

/// The number by which the pool knows a rank that takes features; -1: it takes none.
std::int64_t consumer_of(const mesh::Mesh& backbone) {
  if (!backbone.is_here() || backbone.at().pp != 0) return -1;
  const std::int64_t reader = backbone.sequence().index() * backbone.shape().tp + backbone.at().tp;
  return backbone.data_index() * readers_of_replica(backbone) + reader;
}

/// The size of the pool's pages: larger for wide features.
std::uint64_t page_bytes_of(const model::Model& model, std::span<const FlowModule> modules) {
  constexpr std::int64_t kWide = 2048;
  const bool any_wide = std::ranges::any_of(
      modules, [&](const FlowModule& module) { return model.feature_width(module.name) > kWide; });
  return std::uint64_t{any_wide ? 256U : 64U} << 10;
}

/// The objects of each microbatch of a replica. shape: keys [samples of the batch] of each
std::vector<memory::PlannedMicrobatch> list_keys(const schedule::PackedBins& bins,
                                                 std::span<const std::vector<memory::Key>> keys) {
  std::vector<memory::PlannedMicrobatch> microbatches;
  for (std::int64_t bin = 0; bin < bins.bins(); ++bin) {
    memory::PlannedMicrobatch& microbatch = microbatches.emplace_back(
        memory::PlannedMicrobatch{.order = static_cast<std::uint32_t>(bin)});
    for (const std::int32_t sample : bins.bin(bin))
      for (const memory::Key& key : keys[static_cast<std::size_t>(sample)])
        microbatch.keys.push_back(key);
  }
  return microbatches;
}

/// The object as it was read, on the device of `options`. Where it came to that device, its memory
/// goes back when the default stream, on which ranks compute, has done with it.
at::Tensor tensor_of(memory::ObjectBuffer object, at::IntArrayRef shape,
                     const at::TensorOptions& options) {
  auto bytes = std::make_shared<memory::ObjectBuffer>(std::move(object));
  const at::Device place = bytes->is_on_device() ? options.device() : at::Device(at::kCPU);
  const at::Tensor read = at::for_blob(bytes->data(), shape)
                              .deleter([bytes](void*) {})
                              .options(options.device(place))
                              .target_device(place)
                              .make_tensor();
  return ops::to_device(read, options.device());
}

}  // namespace

Flow::Flow(const config::RunConfig& config, std::vector<FlowModule> modules)
    : config_(config), modules_(std::move(modules)) {}
Flow::~Flow() = default;

void Flow::open(model::Model& model, const mesh::Mesh& backbone, const data::Loader& loader,
                std::function<void()> on_progress) {
  model_ = &model;
  loader_ = &loader;
  on_progress_ = std::move(on_progress);
  page_bytes_ = page_bytes_of(model, modules_);
  readers_ = readers_of_replica(backbone);
  const auto first_step = static_cast<std::uint64_t>(step_of(loader.next_index()));
  next_planned_ = first_step;
  const std::string directory = pool_directory(config_);
  const std::map<std::string, std::string> weights = digest_towers(backbone);
  lender_ = make_lender(backbone);
  if (backbone.world().index() == 0) {
    memory::make_pool_directory(directory);
    FlowTerms terms = flow_terms(config_, loader, weights);
    if (lender_) terms.piece_bytes = lender_->piece_bytes();
    write_flow_terms(directory, terms);
    controller_ = std::make_unique<memory::PoolController>(memory::PoolControllerOptions{
        .directory = directory,
        .bind = config_.pool.bind,
        .consumers = static_cast<std::uint32_t>(backbone.data_ranks() * readers_),
        .first_step = first_step,
        .window = static_cast<std::uint64_t>(steps_open()),
        .page_bytes = page_bytes_,
        .reserve_pages = max_pages(),
    });
  }
  (void)backbone.world().sum(std::vector<std::int64_t>{0});  // the controller listens
  if (const std::int64_t consumer = consumer_of(backbone); consumer >= 0)
    reader_ = std::make_unique<memory::PoolReader>(
        memory::PoolReaderOptions{.directory = directory,
                                  .consumer = static_cast<std::uint32_t>(consumer),
                                  .first_step = first_step,
                                  .ahead = static_cast<std::uint64_t>(steps_open() - 1),
                                  .engines = pool_engines(config_),
                                  .device = pool_device(config_, model.device())});
  if (lender_) lender_->join();
  if (config_.pool.encoders > 0) wait_for_encoders(backbone.world());
  keeps_ = config_.objective.compares_pairs();
}

std::map<std::string, std::string> Flow::digest_towers(const mesh::Mesh& backbone) const {
  std::map<std::string, std::string> digests;
  for (const FlowModule& module : modules_) {
    const bool tells = consumer_of(backbone) == 0;
    const std::string own = tells ? digest_tower(*model_, module) : std::string();
    for (const std::string& text : backbone.world().gather_text(own)) digests[module.name] += text;
  }
  return digests;
}

std::unique_ptr<TowerLender> Flow::make_lender(const mesh::Mesh& backbone) {
  std::vector<FlowModule> training = modules_;
  std::erase_if(training, [](const FlowModule& module) { return !module.trains; });
  if (training.empty()) return nullptr;
  return std::make_unique<TowerLender>(
      config_, std::move(training), *model_, backbone.world(),
      TowerLender::Options{
          .consumers = static_cast<std::uint32_t>(backbone.data_ranks() * readers_),
          .consumer = consumer_of(backbone),
          .page_bytes = page_bytes_,
          .max_pages = max_pages(),
          .take = [this](const memory::Key& key,
                         bool waits) { return waits ? wait_for(key) : reader_->take(key, {}); },
          .is_planned = [this](const memory::Key& key) { return is_planned(key); },
          .use = &use_});
}

void Flow::wait_for_encoders(const mesh::Group& world) const {
  const Stopwatch watch;
  const auto wanted = static_cast<std::uint64_t>(config_.pool.encoders);
  const auto is_over = [&] {
    const memory::PoolCounts counts = controller_->counts();
    // One that has left again lacked something, and may not come back.
    return counts.producers + counts.left >= wanted ||
           watch.seconds() > config_.parallel.bootstrap_timeout_seconds;
  };
  // Rank 0 looks for all. Each collective is short, as those that wait may not be silent for long.
  while (world.largest({controller_ && is_over() ? 1 : 0}).front() == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (!controller_) return;
  if (const std::uint64_t found = controller_->counts().producers; found < wanted)
    log_warning(str("train: ", found, " of ", wanted, " encoders are there after ",
                    describe_seconds(watch.seconds()),
                    "; the run goes on, and its ranks encode what no encoder does"));
}

std::uint64_t Flow::max_pages() const {
  // A quarter of an encoder's memory, so that it can work on one object while others wait.
  return std::max<std::uint64_t>(
      1, (static_cast<std::uint64_t>(config_.pool.encoder_mib) << 20) / 4 / page_bytes_);
}

std::int64_t Flow::steps_open() const {
  const std::int64_t ahead = config_.pool.ahead;
  return config_.pool.order == config::PoolOrder::kArrival ? 2 * ahead - 1 : ahead;
}

std::int64_t Flow::step_of(std::int64_t first_index) const {
  return first_index / config_.batch.global_samples;
}

bool Flow::is_planned(const memory::Key& key) {
  const std::scoped_lock lock(mutex_);
  return planned_.contains(key);
}

void Flow::plan(const DealtBatch& batch) {
  memory::StepPlanned planned;
  planned.plan.step = static_cast<std::uint64_t>(step_of(batch.first_index));
  // A batch whose headers could not be read ends the run when it is handed out, and has no plan.
  if (planned.plan.step != next_planned_) return;
  ++next_planned_;
  std::vector<std::vector<memory::Key>> keys(batch.shapes.size());
  for (std::size_t i = 0; i < batch.shapes.size(); ++i)
    for (const FlowModule& module : modules_) {
      const std::uint64_t pages = pages_of(module, batch.shapes[i]);
      if (module.trains) continue;
      if (std::ranges::binary_search(batch.trained,
                                     batch.first_index + static_cast<std::int64_t>(i)))
        continue;
      if (pages == 0 || pages > max_pages()) continue;  // nothing to make, or made here
      keys[i].push_back(key_of(module, batch.first_index + static_cast<std::int64_t>(i)));
      planned.objects.push_back(
          {.key = keys[i].back(), .pages = static_cast<std::uint32_t>(pages)});
    }
  if (lender_) lender_->plan(batch, planned.plan.step, planned.objects, keys);
  {
    const std::scoped_lock lock(mutex_);
    for (const memory::PlannedObject& object : planned.objects) planned_.insert(object.key);
  }
  if (!controller_) return;
  for (std::uint32_t replica = 0; replica < batch.microbatches.size(); ++replica)
    for (memory::PlannedMicrobatch& microbatch : list_keys(batch.microbatches[replica], keys))
      for (std::uint32_t reader = 0; reader < readers_; ++reader) {
        microbatch.dp_rank = replica * readers_ + reader;
        planned.plan.microbatches.push_back(microbatch);
      }
  controller_->plan(std::move(planned));
}

std::uint64_t Flow::pages_of(const FlowModule& module, const SampleShape& shape) const {
  const auto bytes = static_cast<std::uint64_t>(feature_bytes(*model_, module, shape).count);
  return (bytes + page_bytes_ - 1) / page_bytes_;
}

std::optional<memory::PoolObject> Flow::wait_for(const memory::Key& key) {
  constexpr double kSlice = 1;  // s, after which the watch hears of this rank
  const Stopwatch watch;
  for (double left = waits_ ? config_.pool.patience_seconds : 0;; left -= kSlice) {
    const double slice = std::clamp(left, 0.0, kSlice);
    const Stopwatch waited;
    auto object = reader_->take(key, Nanoseconds{static_cast<std::int64_t>(slice * 1e9)});
    const bool was_in_vain = !object && waited.seconds() >= slice;
    if (was_in_vain && left > kSlice) {
      if (on_progress_) on_progress_();
      continue;
    }
    // Whoever has waited in vain once may wait so for each of a thousand samples.
    if (was_in_vain) waits_ = false;
    use_.starved += watch.seconds();
    return object;
  }
}

memory::Key Flow::key_of_features(const FlowModule& module, std::int64_t sample) const {
  return module.trains ? key_of(module, TowerObject::kFeatures, sample,
                                static_cast<std::uint64_t>(step_of(sample)))
                       : key_of(module, sample);
}

at::Tensor Flow::take_from_pool(const FlowModule& module, const data::EncodedSample& sample) {
  std::optional<memory::PoolObject> object = wait_for(key_of_features(module, sample.id));
  if (!object) return {};
  if (object->fields.tokens != record_mark(sample)) {
    is_in_vain_ = is_in_vain_ || lacks_rows(module, sample);
    return {};
  }
  const at::TensorOptions options = model_->units().front()->whole_options();
  const std::vector<std::int64_t> rows = feature_rows(*model_, module, sample.shape());
  const std::vector<std::int64_t> shape{std::accumulate(rows.begin(), rows.end(), std::int64_t{0}),
                                        model_->feature_width(module.name)};
  const memory::WireHandle& found = object->fields;
  const bool fits = found.dims == 2 && found.shape[0] == shape[0] && found.shape[1] == shape[1] &&
                    found.dtype == static_cast<std::uint8_t>(
                                       element_type(c10::typeMetaToScalarType(options.dtype())));
  if (!fits) return {};
  use_.objects += 1;
  use_.bytes += static_cast<std::int64_t>(object->bytes.size());
  return tensor_of(std::move(object->bytes), shape, options);
}

at::Tensor Flow::features_of(const FlowModule& module, const data::EncodedSample& sample) {
  if (pages_of(module, sample.shape()) == 0) return {};
  const memory::Key key = key_of_features(module, sample.id);
  if (auto kept = kept_.extract(key)) return kept.mapped();
  at::Tensor features;
  const bool may_come = is_planned(key);
  if (!is_in_vain_ && may_come) features = take_from_pool(module, sample);
  if (!is_in_vain_ && !features.defined()) features = encode_here(module, sample, may_come);
  if (is_in_vain_) return no_features(module, sample);
  if (keeps_) kept_[key] = features;
  return features;
}

model::Features Flow::take(std::span<const data::EncodedSample* const> samples) {
  model::Features features;
  for (const FlowModule& module : modules_) {
    std::vector<at::Tensor> of_samples;
    for (const data::EncodedSample* sample : samples)
      of_samples.push_back(features_of(module, *sample));
    if (module.trains) lender_->take_leaves(module, samples, of_samples);
    if (at::Tensor own = join_features(*model_, module, samples, of_samples); own.defined())
      features[module.name] = std::move(own);
  }
  return features;
}

void Flow::begin_step(std::int64_t first_index) {
  if (lender_) lender_->begin_step(static_cast<std::uint64_t>(step_of(first_index)), first_index);
}

void Flow::lend_gradients(std::span<const data::EncodedSample* const> samples) {
  if (lender_) lender_->lend_gradients(samples);
}

void Flow::finish_gradients() {
  if (lender_) lender_->finish_gradients();
}

FlowUse Flow::use() {
  use_.takers = reader_ ? 1 : 0;
  use_.needed = static_cast<double>(use_.objects + use_.encoded_here) / readers_;
  if (controller_) add_pool(controller_->counts());
  return use_;
}

void Flow::end_step() {
  use_ = {};
  kept_.clear();
  waits_ = true;
}

void Flow::add_pool(const memory::PoolCounts& now) {
  const memory::PoolCounts before = std::exchange(counted_, now);
  const auto since = [](std::uint64_t then, std::uint64_t total) {
    return static_cast<std::int64_t>(total - then);
  };
  use_.encoders = static_cast<std::int64_t>(now.producers);
  use_.pool_bytes = static_cast<std::int64_t>(now.pages_used * page_bytes_);
  use_.joined += since(before.joined, now.joined);
  use_.left += since(before.left, now.left);
  use_.lost += since(before.fenced, now.fenced);
  use_.made += since(before.made, now.made);
  use_.encoder_seconds += now.producer_seconds - before.producer_seconds;
  use_.encoder_busy += now.busy_seconds - before.busy_seconds;
  use_.encoder_blocked += now.blocked_seconds - before.blocked_seconds;
}

void Flow::finish_batch(std::int64_t first_index) {
  if (lender_) lender_->finish_step(static_cast<std::uint64_t>(step_of(first_index)));
  if (reader_) reader_->finish_step(static_cast<std::uint64_t>(step_of(first_index)));
  const std::scoped_lock lock(mutex_);
  const auto next = static_cast<std::uint64_t>(first_index + config_.batch.global_samples);
  planned_.erase(planned_.begin(), planned_.lower_bound({.sample = next}));
}

std::set<std::int64_t> Flow::samples_without_features() {
  std::set<std::int64_t> samples;
  if (!controller_ || controller_->counts().producers == 0) return samples;
  const std::vector<memory::Key> made = controller_->made();
  const std::scoped_lock lock(mutex_);
  auto next = made.begin();
  for (const memory::Key& key : planned_) {
    while (next != made.end() && *next < key) ++next;
    if (next == made.end() || *next != key)
      samples.insert(samples.end(), static_cast<std::int64_t>(key.sample));
  }
  return samples;
}

void Flow::finish() {
  if (controller_) controller_->finish();
}

}  // namespace tributary::train
