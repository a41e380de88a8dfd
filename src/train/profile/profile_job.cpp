#include "train/profile/profile_job.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <iomanip>
#include <ostream>
#include <unistd.h>

#include <ATen/Parallel.h>
#include <torch/version.h>

#include "config/mesh_shape.h"
#include "core/error.h"
#include "core/file/file_system.h"
#include "core/file/given_file.h"
#include "core/text.h"
#include "mesh/cores.h"
#include "mesh/device.h"
#include "parallel/unit_chain.h"
#include "train/metrics/environment.h"
#include "train/profile/measure_collectives.h"
#include "train/profile/measure_passes.h"
#include "train/profile/measure_step.h"
#include "train/profile/profile_ledger.h"
#include "train/run/stop_request.h"

namespace tributary::train {
namespace {

constexpr std::size_t kMostMicrobatches = 4;                    // of one size
constexpr std::array<std::int64_t, 5> kEighths{1, 2, 4, 6, 8};  // of the capacity: the grid

std::string percent(double share) {
  return str(std::fixed, std::setprecision(1), 100 * share, " %");
}
std::string in_ms(Nanoseconds time) {
  return str(std::fixed, std::setprecision(3), 1e-6 * static_cast<double>(time.count), " ms");
}

std::string name_of_device(const std::string& device) {
  if (!device.starts_with("cuda")) return describe_cpu();
  const mesh::Devices devices = mesh::list_devices();
  return devices.accelerators.empty() ? device : devices.accelerators.front();
}

ProfileIdentity identity_of(const config::RunConfig& config) {
  constexpr std::uint64_t kMostBytes = 16 << 20;
  const std::string text = read_given_file(
      config.model.path + "/config.json", kMostBytes,
      {.what = "train: model cannot be read", .expected = "a directory with a config.json"});
  const std::string name =
      std::filesystem::path(config.model.path).lexically_normal().filename().string();
  const bool on_cpu = !config.run.device.starts_with("cuda");
  return {.model = str(name, " ", config::model_digest(text)),
          .device = name_of_device(config.run.device),
          .libraries = str("torch ", TORCH_VERSION),
          .cores = on_cpu ? std::ssize(mesh::usable_cores()) : 0};
}

/// Every rank alone, or all on one axis: nothing of the run's own `parallel` section.
config::RunConfig plain_config(const config::RunConfig& given) {
  config::RunConfig config = given;
  config::ParallelSection parallel;
  parallel.bootstrap_timeout_seconds = given.parallel.bootstrap_timeout_seconds;
  parallel.collective_timeout_seconds = given.parallel.collective_timeout_seconds;
  parallel.dp_replicate = {0};
  parallel.dp_shard = {1};
  config.parallel = parallel;
  config.batch.balance = config::Balance::kNone;
  config.drill = {};
  for (config::SourceSection& source : config.data.sources) source.start_step = 0;
  return config;
}

/// Takes batches as fast as a run does that trains on their tokens, so that reading and decoding
/// them disturbs what is measured as much as it does there.
class LoaderPace {
 public:
  explicit LoaderPace(data::Loader& loader) : loader_(loader) {}
  void use(Tokens tokens) {
    owed_ += tokens.count;
    while (owed_ > 0)
      for (const data::EncodedSample& sample : loader_.next_batch())
        owed_ -= std::ssize(sample.tokens);
  }

 private:
  data::Loader& loader_;
  std::int64_t owed_ = 0;
};

/// The measurements of one job, in the order in which they run.
class ProfileJob {
 public:
  ProfileJob(const ProfileRequest& request, const Ranks& ranks, const config::RunConfig& config,
             std::ostream& out)
      : ranks_(ranks),
        config_(config),
        model_config_(config::read_model_config(config.model.path)),
        output_(request.output),
        out_(out) {
    read_profile_together();
  }

  ExitCode run(const StopRequest& stop) {
    stop_ = &stop;
    // Before anything else has filled the process with memory.
    if (has_cores()) measure_alone();
    if (has_cores() && ranks() > 1) measure_tp();
    if (ranks() > 1) measure_messages();
    if (leads() && measured_ == 0)
      out_ << ranks() << (ranks() == 1 ? " process" : " processes") << ": nothing is missing\n";
    if (leads())
      out_ << "noise " << percent(profile_.noise)
           << ": median over all points of (largest - least) / median\n";
    return stopped_ ? ExitCode::kTerminated : ExitCode::kDone;
  }

 private:
  [[nodiscard]] int ranks() const { return ranks_.mesh.size(); }
  [[nodiscard]] const mesh::Group& world() const { return ranks_.mesh.world(); }
  [[nodiscard]] bool leads() const { return ranks_.mesh.rank() == 0; }
  /// Processes that all compute need a core each, or a device.
  [[nodiscard]] bool has_cores() const { return profile_.cores == 0 || ranks() <= profile_.cores; }

  /// All ranks know what is measured; the first one writes.
  void read_profile_together() {
    std::string text;
    if (leads() && std::filesystem::exists(output_))
      text = config::write_profile(config::read_profile(output_));
    text = world().gather_text(text).front();
    if (!text.empty()) profile_ = config::parse_profile(text, output_);
    require_identity(profile_, identity_of(config_), output_);
  }

  void write() {
    ++measured_;
    summarise_noise(profile_);
    if (leads()) replace_file(real_file_system(), output_, config::write_profile(profile_));
  }

  /// Together, so that no rank waits for one that has left.
  [[nodiscard]] bool goes_on() {
    if (!stopped_) stopped_ = world().largest({stop_->asked() ? 1 : 0}).front() != 0;
    return !stopped_;
  }

  [[nodiscard]] std::vector<Tokens> missing_sizes(std::int64_t tp, std::int64_t threads) const {
    std::vector<Tokens> sizes;
    for (const std::int64_t eighths : kEighths) {
      const Tokens capacity{config_.batch.capacity_tokens.count * eighths / 8};
      if (!has_pass(profile_,
                    {.ranks = ranks(), .tp = tp, .threads = threads, .capacity = capacity}))
        sizes.push_back(capacity);
    }
    return sizes;
  }

  /// This rank as a run of one process, while the others are one each.
  void measure_alone() {
    const std::int64_t threads = compute_threads(config_.run, ranks_.launch);
    const std::vector<Tokens> sizes = missing_sizes(1, threads);
    const bool lacks_step = !has_step(profile_, ranks(), threads);
    if ((sizes.empty() && !lacks_step) || !goes_on()) return;
    LiveBytes bytes;
    Ranks alone;
    alone.launch = ranks_.launch;
    Session session = open_session(config_, alone, "");
    if (lacks_step) {
      config::MeasuredStep step = measure_step(session, bytes, world(), {});
      step.ranks = ranks();
      step.threads = threads;
      profile_.steps.push_back(step);
      profile_.flops_per_s = std::max(profile_.flops_per_s, measure_peak_flops());
      profile_.memory = {std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE)};
      write();
      out_ << "a step of one rank on " << threads
           << " threads, beside its passes: " << in_ms(step.step) << ", update "
           << in_ms(step.optimizer) << ", spread " << percent(step.spread) << std::endl;
    }
    bytes.count(false);
    measure_sizes(sizes, parallel::Layout{}, session, 1, threads);
  }

  /// All ranks as the tensor-parallel ranks of one replica.
  void measure_tp() {
    const std::int64_t threads = compute_threads(config_.run, ranks_.launch);
    const std::vector<Tokens> sizes = missing_sizes(ranks(), threads);
    if (sizes.empty() || !can_cut() || !goes_on()) return;
    config::RunConfig config = config_;
    config.parallel.dp_replicate = {1};
    config.parallel.tp = {ranks()};
    const mesh::Mesh mesh =
        make_mesh(config, model_config_, ranks_,
                  config::resolve_mesh(config.parallel, ranks(), model_config_), "profile/tp");
    Ranks alone;
    alone.launch = ranks_.launch;
    Session session = open_session(config_, alone, "");
    measure_sizes(sizes, lay_out(config, mesh, model_config_), session, ranks(), threads);
  }

  /// Whether the model can be cut over all ranks by tp.
  [[nodiscard]] bool can_cut() const {
    const config::BackboneConfig& backbone = model_config_.backbone;
    const bool backbone_can = backbone.heads % ranks() == 0 && (backbone.kv_heads % ranks() == 0 ||
                                                                ranks() % backbone.kv_heads == 0);
    return backbone_can && (!model_config_.vision || model_config_.vision->heads % ranks() == 0);
  }

  void measure_sizes(const std::vector<Tokens>& sizes, parallel::Layout layout,
                     const Session& session, std::int64_t tp, std::int64_t threads) {
    if (sizes.empty()) return;
    if (!layout.chain)
      layout.chain = std::make_shared<parallel::UnitChain>(parallel::ChainOptions{});
    const auto model = build_model(config_, model_config_, layout, session.device);
    const std::vector<data::EncodedSample> samples = draw_samples(session);
    LoaderPace pace(*session.loader);
    for (const Tokens capacity : sizes) {
      if (!goes_on()) return;
      const ProfileBatch batch = fill_microbatches(samples, capacity, kMostMicrobatches);
      if (batch.microbatches.empty()) continue;  // every sample is longer
      PassMeasurement measured =
          measure_passes(*model, config_, batch, world(),
                         {.before_round = [&pace](Tokens tokens) { pace.use(tokens); }});
      measured.whole.ranks = ranks();
      measured.whole.tp = tp;
      measured.whole.threads = threads;
      add(measured);
    }
  }

  /// Samples for all microbatches of the largest size.
  static std::vector<data::EncodedSample> draw_samples(const Session& session) {
    constexpr int kMostBatches = 64;
    std::vector<data::EncodedSample> samples;
    const std::int64_t wanted = session.config.batch.capacity_tokens.count *
                                static_cast<std::int64_t>(kMostMicrobatches + 1);
    std::int64_t tokens = 0;
    for (int i = 0; i < kMostBatches && tokens < wanted; ++i) {
      for (data::EncodedSample& sample : session.loader->next_batch()) {
        tokens += std::ssize(sample.tokens);
        samples.push_back(std::move(sample));
      }
    }
    return samples;
  }

  void add(const PassMeasurement& measured) {
    for (const auto& [key, point] : measured.points) {
      config::ProfileTable like{.module = key.module,
                                .layer = key.layer,
                                .dtype = config_.model.dtype,
                                .tp = measured.whole.tp,
                                .ranks = measured.whole.ranks,
                                .threads = measured.whole.threads};
      like.sequence_tokens = std::llround(measured.sequence_tokens);
      const auto parameters = measured.parameters.find(key);
      if (parameters != measured.parameters.end()) like.parameters = parameters->second;
      add_point(profile_, like, point);
    }
    profile_.passes.push_back(measured.whole);
    write();
    out_ << "microbatches of " << measured.whole.capacity << ", " << ranks() << " ranks, tp "
         << measured.whole.tp << ", " << measured.whole.threads << " threads: forward "
         << in_ms(measured.whole.forward) << ", backward " << in_ms(measured.whole.backward)
         << ", spread " << percent(measured.whole.spread) << std::endl;
  }

  void measure_messages() {
    using config::CollectiveOp;
    std::unique_ptr<mesh::Mesh> stages;
    const c10::Device device = mesh::open_device(config_.run.device, ranks_.launch.local_rank);
    for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kAllGather,
                                  CollectiveOp::kReduceScatter, CollectiveOp::kSend}) {
      for (const Bytes bytes : collective_sizes()) {
        if (has_collective(profile_, op, ranks(), bytes)) continue;
        if (!goes_on()) return;
        if (!stages)
          stages = std::make_unique<mesh::Mesh>(
              make_mesh(config_, model_config_, ranks_, {.pp = ranks()}, "profile/stages"));
        const config::MeasuredCollective point =
            measure_collective(op, ranks_.mesh, *stages, bytes, device, {});
        add_collective(profile_, op, point);
        write();
      }
    }
    out_ << "collectives and messages of " << ranks() << " processes: measured" << std::endl;
  }

  const Ranks& ranks_;
  const config::RunConfig& config_;
  config::ModelConfig model_config_;
  std::string output_;
  std::ostream& out_;
  const StopRequest* stop_ = nullptr;
  config::Profile profile_;
  int measured_ = 0;
  bool stopped_ = false;
};

}  // namespace

ExitCode measure_profile(const ProfileRequest& request, std::ostream& out) {
  const config::RunConfig config = plain_config(request.config);
  const Ranks ranks = join_ranks(config, config::read_model_config(config.model.path));
  std::ostream nowhere(nullptr);
  ExitCode code = ExitCode::kDone;
  run_for_all(ranks, [&] {
    const StopRequest stop(std::chrono::seconds(config.stability.stop_grace_seconds));
    code = ProfileJob(request, ranks, config, ranks.mesh.rank() == 0 ? out : nowhere).run(stop);
  });
  if (ranks.health) ranks.health->finish();
  return code;
}

}  // namespace tributary::train
