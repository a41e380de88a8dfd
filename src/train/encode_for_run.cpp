#include "train/encode_for_run.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/error.h"
#include "core/log.h"
#include "core/machine/cores.h"
#include "core/machine/memory_limits.h"
#include "core/stopwatch.h"
#include "data/loader/encode_sample.h"
#include "memory/progress/pool_directory.h"
#include "memory/progress/pool_producer.h"
#include "mesh/device.h"
#include "parallel/unit_chain.h"
#include "train/flow/feature_cache.h"
#include "train/flow/flow_module.h"
#include "train/flow/flow_terms.h"
#include "train/flow/tower_worker.h"
#include "train/metrics/console.h"
#include "train/start/media_kernels.h"
#include "train/start/ranks.h"
#include "train/start/session.h"

namespace tributary::train {
namespace {

using memory::PoolProducer;

constexpr Nanoseconds kAttempt{2'000'000'000};  // to join, after which a stop is heeded

/// A flowing module with its tower, whole, in this process.
struct Tower {
  FlowModule module;
  Ranks place;  // of one rank that has the tower, beside one that has the rest; they meet nobody
  std::unique_ptr<model::Model> model = {};
  std::string weights = {};  // their digest
  std::optional<FeatureCache> cache = {};
};

Tower build_tower(const config::RunConfig& config, const config::ModelConfig& model,
                  FlowModule module, at::Device device) {
  config::RunConfig alone = config;
  alone.parallel = {};
  alone.parallel.reduce_dtype = config.parallel.reduce_dtype;
  alone.model.adapter = {};
  alone.pool = {};
  std::ranges::find(alone.parallel.modules, module.name, &config::ModuleSection::module)
      ->placement = config::Placement::kSeparate;
  Tower tower{.module = std::move(module), .place = imagine_rank(alone, model, 1, 2)};
  const Ranks& place = tower.place;
  model::ModelLayout layouts = lay_out(alone, place.plan, place.pipeline, place.meshes);
  const bool trains = tower.module.trains;
  std::shared_ptr<parallel::UnitChain>& chain = layouts.encoders.at(tower.module.name).chain;
  if (trains && chain)
    chain->split_backward(false);
  else
    chain = nullptr;
  tower.model = model::make_model(model, layouts);
  for (const auto& unit : tower.model->units())
    unit->materialize(device, dtype_of(config.model, device),
                      trains && unit->module() == tower.module.name);
  tower.model->set_recompute(config.model.recompute);
  if (!trains) set_first_weights(*tower.model, config, {});  // otherwise they come with each step
  tower.weights = digest_tower(*tower.model, tower.module);
  return tower;
}

data::LoaderOptions options_of(const config::RunConfig& run) {
  data::LoaderOptions options;
  options.data = run.data;
  options.seed = run.run.seed;
  options.batch_samples = run.batch.global_samples;
  return options;
}

/// What this process encodes with, whatever run it works for.
struct Workshop {
  Workshop(const config::RunConfig& run, at::Device on)
      : config(run),
        device(on),
        model(config::read_model_config(run.model.path)),
        tokenizer(data::Tokenizer::load(run.model.path)),
        encoder(data::make_encoder(run, model, tokenizer, resize_picture, frame_samples)),
        loader(options_of(run), *encoder) {
    for (FlowModule& module : flow_modules(run, model))
      towers.push_back(build_tower(run, model, std::move(module), device));
  }

  [[nodiscard]] Tower* find(std::uint16_t part) {
    const auto found =
        std::ranges::find(towers, part, [](const Tower& each) { return each.module.part; });
    return found == towers.end() ? nullptr : &*found;
  }
  /// Takes the run's number of compute threads and the place of its data. Called once in a run.
  ///
  /// errors: as require_same_settings; ExitCode::kCheckpointRefused where its data are others
  void enter(const FlowTerms& of_run) {
    std::map<std::string, std::string> weights;
    for (const Tower& tower : towers) weights[tower.module.name] = tower.weights;
    require_same_settings(flow_terms(config, loader, weights), of_run);
    loader.restore(of_run.loader);
    at::set_num_threads(of_run.compute_threads);
    constexpr std::int64_t kGib = std::int64_t{1} << 30;
    if (config.pool.cache.empty()) return;
    const std::string bits =
        str(" ", c10::DeviceTypeName(device.type()), " ", of_run.compute_threads, " ",
            at::globalContext().deterministicAlgorithms());
    for (Tower& tower : towers)
      if (!tower.module.trains)
        tower.cache.emplace(config.pool.cache, tower.weights + bits,
                            Bytes{config.pool.cache_gib * kGib});
  }

  config::RunConfig config;
  at::Device device;
  config::ModelConfig model;
  data::Tokenizer tokenizer;
  std::unique_ptr<data::SampleEncoder> encoder;
  data::Loader loader;
  std::vector<Tower> towers;
};

/// How many tasks an encoder has at a time. Of a tower that trains some wait for others.
std::uint32_t max_tasks(const config::RunConfig& config) {
  const std::vector<FlowModule> modules =
      flow_modules(config, config::read_model_config(config.model.path));
  return std::ranges::any_of(modules, &FlowModule::trains)
             ? UINT32_MAX
             : static_cast<std::uint32_t>(config.data.workers);
}

/// How this process lends features.
memory::PoolProducerOptions lending_options(const config::RunConfig& config, std::uint32_t tasks,
                                            at::Device device) {
  return {.directory = pool_directory(config),
          .capacity_bytes = static_cast<std::uint64_t>(config.pool.encoder_mib) << 20,
          .encoders = tasks,
          .engines = pool_engines(config),
          .device = pool_device(config, device),
          .patience = kAttempt};
}

void stay_away(double seconds, const StopRequest& stop) {
  const Stopwatch watch;
  while (watch.seconds() < seconds && !stop.asked())
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

/// Joins the pool of a run, once it is there; null where this process was asked to stop, or none
/// came in time.
std::unique_ptr<PoolProducer> join_run(const memory::PoolProducerOptions& options,
                                       std::chrono::seconds patience, const StopRequest& stop) {
  const Stopwatch watch;
  std::string why = "none was looked for";
  while (!stop.asked()) {
    if (watch.seconds() > static_cast<double>(patience.count())) {
      log_note(str("train: no run came within ", patience.count(), " s: ", why));
      return nullptr;
    }
    try {
      return std::make_unique<PoolProducer>(options);
    } catch (const Error& error) {
      if (error.exit_code() != ExitCode::kPeerLost) throw;
      const bool is_news = std::exchange(why, error.what()) != error.what();
      // Where no run is there, there is nothing to say.
      if (is_news && memory::find_pool(options.directory)) log_warning(why);
    }
  }
  return nullptr;
}

/// Encodes what one run wants, until it ends.
class Shift {
 public:
  Shift(Workshop& shop, PoolProducer& producer, const FlowTerms& of_run)
      : shop_(shop),
        producer_(producer),
        depth_(static_cast<std::size_t>(shop.config.data.workers)) {
    for (Tower& tower : shop_.towers)
      if (tower.module.trains)
        workers_.try_emplace(
            tower.module.part, *tower.model, tower.module, producer_,
            [this](std::int64_t sample) { return shop_.loader.load(sample); }, of_run.piece_bytes,
            shop_.config.batch.global_samples);
  }

  /// Returns when the run has ended, or nobody needs this process after it was asked to stop.
  PoolProducer::End work(const StopRequest& stop) {
    bool was_busy = false;
    while (producer_.end() == PoolProducer::End::kNone && !(stop.asked() && leave())) {
      fetch(Nanoseconds{was_busy ? 0 : 200'000'000});
      drop_what_nobody_needs();
      read_ahead();
      // A rank waits for gradients at the end of its step; frozen towers may be steps ahead.
      was_busy = make_features(producer_.low()) || make_gradient() || make_features(kAnyStep);
    }
    for (auto& [part, worker] : workers_) worker.forget_before(kAnyStep);
    for (Begun& each : begun_) producer_.fail(each.task, "this encoder leaves");
    return producer_.end();
  }

  [[nodiscard]] double seconds() const { return seconds_; }

 private:
  struct Begun {
    PoolProducer::Task task;
    std::future<data::EncodedSample> sample = {};  // being read
  };

  /// Takes no more work. Returns whether what this process has made is used, or half of the grace
  /// is over.
  [[nodiscard]] bool leave() {
    if (!leaving_) {
      producer_.leave();
      leaving_.emplace();
    }
    return producer_.has_left() ||
           leaving_->seconds() > 0.5 * shop_.config.stability.stop_grace_seconds;
  }

  /// Takes all tasks that are there, and waits for one where there is nothing else to do.
  void fetch(Nanoseconds patience) {
    while (std::optional<PoolProducer::Task> task = producer_.next(patience)) {
      patience = {};
      const auto worker = workers_.find(task->key.part & kModulePart);
      if (kind_of(task->key) == TowerObject::kGradient && worker != workers_.end())
        worker->second.take(std::move(*task));
      else
        begun_.push_back({std::move(*task)});
    }
  }

  void drop_what_nobody_needs() {
    const std::uint64_t low = producer_.low();
    for (auto& [part, worker] : workers_) worker.forget_before(low);
    std::erase_if(begun_, [&](Begun& each) {
      const bool is_over = each.task.step < low && workers_.contains(each.task.key.part);
      const bool is_dropped = is_over || producer_.is_cancelled(each.task);
      if (is_dropped) producer_.drop(each.task);
      return is_dropped;
    });
  }

  void read_ahead() {
    for (std::size_t i = 0; i < std::min(depth_, begun_.size()); ++i) begin_to_read(begun_[i]);
  }

  void begin_to_read(Begun& begun) {
    if (begun.sample.valid()) return;
    begun.sample = std::async(std::launch::async,
                              [this, sample = static_cast<std::int64_t>(begun.task.key.sample)] {
                                unbind_from_cores();
                                return shop_.loader.load(sample);
                              });
  }

  [[nodiscard]] bool make_gradient() {
    const Stopwatch watch;
    const bool made =
        std::ranges::any_of(workers_, [](auto& each) { return each.second.make_gradient(); });
    if (made) seconds_ += watch.seconds();
    return made;
  }

  static constexpr std::uint64_t kAnyStep = std::numeric_limits<std::uint64_t>::max();

  /// Makes the first features up to a step that can be made. False: there are none.
  [[nodiscard]] bool make_features(std::uint64_t last_step) {
    const auto first_ready = std::ranges::find_if(begun_, [&](const Begun& each) {
      if (each.task.step > last_step) return false;
      const auto worker = workers_.find(each.task.key.part);
      return worker == workers_.end() || worker->second.has_weights(each.task.step);
    });
    if (first_ready == begun_.end()) return false;
    begin_to_read(*first_ready);
    Begun first = std::move(*first_ready);
    begun_.erase(first_ready);
    const Stopwatch watch;
    try {
      Tower* tower = shop_.find(first.task.key.part);
      TRIB_REQUIRE(tower != nullptr, .what = "train: run wants features of an unknown module",
                   .found = str("part ", first.task.key.part));
      const data::EncodedSample sample = first.sample.get();
      give(first.task, sample, features_of(*tower, sample));
    } catch (const Error& error) {
      log_warning(
          str("train: sample ", first.task.key.sample, " is left to the run: ", error.what()));
      producer_.fail(first.task, error.what());
    }
    seconds_ += watch.seconds();
    return true;
  }

  /// Features on the host and, where a device has made them, there too. The copy to the host has
  /// waited for that device.
  struct Made {
    at::Tensor host, device = {};
  };

  Made features_of(Tower& tower, const data::EncodedSample& sample) {
    if (tower.module.trains) return {workers_.at(tower.module.part).encode(sample)};
    if (tower.cache)
      if (std::optional<at::Tensor> kept = tower.cache->find(tower.module, sample)) return {*kept};
    const at::Tensor made = encode_features(*tower.model, tower.module, sample, shop_.device);
    const at::Tensor features = made.cpu();
    if (tower.cache) tower.cache->keep(tower.module, sample, features);
    return {features, made.is_cpu() ? at::Tensor() : made};
  }

  void give(const PoolProducer::Task& task, const data::EncodedSample& sample, const Made& made) {
    const at::Tensor& features = made.host;
    std::size_t room = 0;
    for (const auto& page : task.pages) room += page.size();
    TRIB_REQUIRE(features.nbytes() <= room,
                 .what = "train: features are larger than the record's headers say",
                 .where = str("sample ", task.key.sample),
                 .found = str(features.nbytes(), " bytes"), .expected = str("at most ", room));
    memory::ObjectDescription description{.bytes = features.nbytes(),
                                          .tokens = record_mark(sample),
                                          .dtype = element_type(features.scalar_type()),
                                          .shape = {static_cast<std::uint32_t>(features.size(0)),
                                                    static_cast<std::uint32_t>(features.size(1))}};
    const auto* bytes = static_cast<const std::byte*>(features.const_data_ptr());
    const void* on_device = made.device.defined() ? made.device.const_data_ptr() : nullptr;
    producer_.finish(task, {bytes, features.nbytes()}, description,
                     static_cast<const std::byte*>(on_device));
  }

  Workshop& shop_;
  PoolProducer& producer_;
  std::size_t depth_;
  std::deque<Begun> begun_;
  std::map<std::uint16_t, TowerWorker> workers_;  // of towers that train, by part
  double seconds_ = 0;
  std::optional<Stopwatch> leaving_ = {};
};

/// How long an encoder stays away [s] that was in a pool for a time and is fenced, after the time
/// that it has stayed away before. A run may let in whom its ranks cannot read from: each time they
/// would wait for it.
double absence_after(double seconds_in, double before) {
  constexpr double kSoon = 10, kShortest = 1, kLongest = 60;
  return seconds_in < kSoon ? std::clamp(2 * before, kShortest, kLongest) : 0;
}

std::string describe(const memory::PoolProducerCounts& counts, double seconds) {
  return str(counts.objects, " objects, ",
             describe_bytes({static_cast<std::int64_t>(counts.bytes)}), ", encoding for ",
             describe_seconds(seconds), ", ", describe_seconds(counts.blocked_seconds),
             " without room");
}

}  // namespace

ExitCode encode_for_run(const config::RunConfig& config, const EncoderOptions& options,
                        const StopRequest& stop, std::ostream& out) {
  const at::Device device = mesh::open_device(config.run.device, options.local_rank);
  set_compute(config.run, /*local_world=*/1, device);
  const memory::PoolProducerOptions lending = lending_options(config, max_tasks(config), device);
  std::optional<Workshop> shop;
  if (!options.waits_first) shop.emplace(config, device);
  double absence = 0;
  for (;;) {
    stay_away(absence, stop);
    out << "waiting for the run in " << pool_directory(config) << std::endl;
    const std::unique_ptr<PoolProducer> producer = join_run(lending, options.patience, stop);
    if (!producer) return stop.asked() ? ExitCode::kDone : ExitCode::kPeerLost;
    if (!shop) shop.emplace(config, device);
    const FlowTerms terms = read_flow_terms(pool_directory(config));
    shop->enter(terms);
    out << "encoding as process " << producer->counts().process << std::endl;
    Shift shift(*shop, *producer, terms);
    const Stopwatch in;
    const PoolProducer::End end = shift.work(stop);
    out << describe(producer->counts(), shift.seconds()) << std::endl;
    if (end == PoolProducer::End::kFinished || stop.asked()) return ExitCode::kDone;
    out << producer->end_reason() << std::endl;
    const bool is_fenced = end == PoolProducer::End::kFenced;
    absence = is_fenced ? absence_after(in.seconds(), absence) : 0;
  }
}

}  // namespace tributary::train
