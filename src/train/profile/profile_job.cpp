#include "train/profile/profile_job.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <iomanip>
#include <optional>
#include <ostream>
#include <unistd.h>

#include <ATen/Parallel.h>
#include <torch/version.h>

#include "config/run/mesh_shape.h"
#include "core/error.h"
#include "core/file/given_file.h"
#include "core/machine/cores.h"
#include "core/text.h"
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

constexpr double kMostSeconds = 86400;
constexpr std::size_t kMostMicrobatches = 3;                    // of one size
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
          .cores = on_cpu ? std::ssize(usable_cores()) : 0};
}

/// The configuration without its `parallel` section: each rank runs alone, or all on one axis.
config::RunConfig plain_config(const config::RunConfig& given) {
  config::RunConfig config = given;
  config::ParallelSection parallel;
  parallel.bootstrap_timeout_seconds = given.parallel.bootstrap_timeout_seconds;
  // Ranks outside of a crowd wait as long as it works; the watch still notices lost ones.
  parallel.collective_timeout_seconds = kMostSeconds;
  parallel.dp_replicate = {0};
  parallel.dp_shard = {1};
  config.parallel = parallel;
  config.batch.balance = config::Balance::kNone;
  config.run.bind = config::Bind::kNone;  // each crowd binds in its own way
  config.drill = {};
  for (config::SourceSection& source : config.data.sources) source.start_step = 0;
  return config;
}

/// Takes batches as fast as a run that trains on their tokens, so that reading and decoding
/// disturbs the measurement as much as it disturbs a run.
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
        given_(request.config.run),
        threads_(compute_threads(given_.threads, ranks.launch.local_world)),
        output_(request.output),
        out_(out) {
    read_profile_together();
    const std::int64_t fewest = request.fewest > 0 ? request.fewest : this->ranks();
    for (std::int64_t fewer = this->ranks(); fewer >= fewest; fewer /= 2) {
      // CPU time of one thread says nothing of several threads where ranks share cores.
      const bool is_known = threads_ == 1 || !crowd_of(fewer).shares_cores;
      if (is_known) crowds_.insert(crowds_.begin(), fewer);
    }
  }

  ExitCode run(const StopRequest& stop) {
    stop_ = &stop;
    // Before anything else has filled the process with memory.
    measure_alone();
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
  [[nodiscard]] int ranks() const { return ranks_.mesh().size(); }
  [[nodiscard]] const mesh::Group& world() const { return ranks_.mesh().world(); }
  [[nodiscard]] bool leads() const { return ranks_.leads(); }
  /// Whether all threads have cores, or a device: processes that wait for each other in every layer
  /// need that.
  [[nodiscard]] bool has_cores() const { return !crowd_of(ranks()).shares_cores; }

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
    if (leads())
      write_given_file(output_, config::write_profile(profile_),
                       {.what = "train: profile cannot be written"});
  }

  /// Together, so that no rank waits for one that has left.
  [[nodiscard]] bool goes_on() {
    if (!stopped_) stopped_ = world().largest({stop_->asked() ? 1 : 0}).front() != 0;
    return !stopped_;
  }

  [[nodiscard]] Crowd crowd_of(std::int64_t ranks) const {
    return {.ranks = static_cast<int>(ranks),
            .shares_cores = profile_.cores > 0 && ranks * threads_ > profile_.cores};
  }
  [[nodiscard]] std::vector<Crowd> lacking_pass(std::int64_t tp, Tokens capacity) const {
    std::vector<Crowd> crowds;
    for (const std::int64_t each : tp > 1 ? std::vector<std::int64_t>{ranks()} : crowds_)
      if (!has_pass(profile_, {.ranks = each, .tp = tp, .threads = threads_, .capacity = capacity}))
        crowds.push_back(crowd_of(each));
    return crowds;
  }
  [[nodiscard]] bool lacks_pass(std::int64_t tp) const {
    return std::ranges::any_of(kEighths, [&](std::int64_t eighths) {
      return !lacking_pass(tp, capacity_at(eighths)).empty();
    });
  }
  [[nodiscard]] Tokens capacity_at(std::int64_t eighths) const {
    return {config_.batch.capacity_tokens.count * eighths / 8};
  }

  /// Measures each rank of a crowd as a run of one process.
  void measure_alone() {
    const bool lacks_step = std::ranges::any_of(
        crowds_, [&](std::int64_t each) { return !has_step(profile_, each, threads_); });
    if ((!lacks_pass(1) && !lacks_step) || !goes_on()) return;
    // Threads that compute with this one stay where it is when the first of them starts.
    if (crowds_.size() == 1) bind_as_run_of(crowd_of(crowds_.front()));
    LiveBytes bytes;
    const Ranks alone = stay_alone(config_, model_config_, ranks_.launch);
    Session session = open_session(config_, alone, "");
    // All ranks draw, before those outside of a crowd wait: all measure the same samples.
    const std::vector<data::EncodedSample> samples = draw_samples(session);
    for (const std::int64_t each : crowds_)
      if (!has_step(profile_, each, threads_) && goes_on())
        measure_steps(session, bytes, crowd_of(each));
    bytes.count(false);
    measure_sizes(parallel::Layout{}, session, samples, 1);
  }

  void measure_steps(Session& session, const LiveBytes& bytes, const Crowd& crowd) {
    bind_as_run_of(crowd);
    config::MeasuredStep step = measure_step(session, bytes, world(), crowd, {});
    step.threads = threads_;
    // The memory of the first turn counts: a process grows in the turns of others.
    if (!process_) process_ = step.process;
    step.process = *process_;
    profile_.steps.push_back(step);
    if (leads()) {
      const at::ScalarType dtype = session.model->units().front()->shard_value().scalar_type();
      const PeakFlops peak = measure_peak_flops(session.device, dtype);
      profile_.flops_per_s = std::max(profile_.flops_per_s, peak.per_second);
    }
    profile_.memory = {std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE)};
    write();
    out_ << "a step of " << crowd.ranks << (crowd.ranks == 1 ? " rank on " : " ranks, each on ")
         << threads_ << (threads_ == 1 ? " thread" : " threads")
         << ", beside its passes: " << in_ms(step.step) << ", update " << in_ms(step.optimizer)
         << ", spread " << percent(step.spread) << std::endl;
  }

  /// Binds this thread as a run with the ranks of `crowd` does.
  void bind_as_run_of(const Crowd& crowd) const {
    mesh::Launch launch = ranks_.launch;
    launch.local_world = std::min(crowd.ranks, launch.local_world);
    if (launch.local_rank < launch.local_world) bind_to_cores(cores_to_use(given_, launch));
  }

  /// Measures all ranks as the tensor-parallel ranks of one replica.
  void measure_tp() {
    if (!can_cut() || !lacks_pass(ranks()) || !goes_on()) return;
    config::RunConfig config = config_;
    config.parallel.dp_replicate = {1};
    config.parallel.tp = {ranks()};
    const mesh::Mesh mesh(config::resolve_mesh(config.parallel, ranks(), model_config_),
                          *ranks_.world, model_config_.backbone.kv_heads, "profile/tp");
    const Ranks alone = stay_alone(config_, model_config_, ranks_.launch);
    Session session = open_session(config_, alone, "");
    bind_as_run_of(crowd_of(ranks()));
    measure_sizes(lay_out_on(mesh, config), session, draw_samples(session), ranks());
  }

  /// Whether the model can be cut over all ranks by tp.
  [[nodiscard]] bool can_cut() const {
    const config::BackboneConfig& backbone = model_config_.backbone;
    const bool backbone_can = backbone.heads % ranks() == 0 && (backbone.kv_heads % ranks() == 0 ||
                                                                ranks() % backbone.kv_heads == 0);
    return backbone_can && (!model_config_.vision || model_config_.vision->heads % ranks() == 0);
  }

  void measure_sizes(parallel::Layout layout, const Session& session,
                     const std::vector<data::EncodedSample>& samples, std::int64_t tp) {
    if (!lacks_pass(tp)) return;
    require_same(samples);
    if (!layout.chain)
      layout.chain = std::make_shared<parallel::UnitChain>(parallel::ChainOptions{});
    const auto model = build_model(config_, model_config_, layout, session.device);
    LoaderPace pace(*session.loader);
    const auto before_round = [&](const Crowd& crowd, Tokens tokens) {
      bind_as_run_of(crowd);
      pace.use(tokens);
    };
    for (const std::int64_t eighths : kEighths) {
      const Tokens capacity = capacity_at(eighths);
      const std::vector<Crowd> crowds = lacking_pass(tp, capacity);
      if (crowds.empty()) continue;
      if (!goes_on()) return;
      const ProfileBatch batch = fill_microbatches(samples, capacity, kMostMicrobatches);
      if (batch.microbatches.empty()) continue;  // every sample is longer
      for (PassMeasurement& measured : measure_passes(
               *model, config_, batch, world(), {.crowds = crowds, .before_round = before_round})) {
        measured.whole.tp = tp;
        measured.whole.threads = threads_;
        add(measured);
      }
    }
  }

  /// Checks that all ranks drew the same samples: times are means over ranks.
  void require_same(const std::vector<data::EncodedSample>& samples) const {
    std::int64_t size = 0;
    for (const data::EncodedSample& sample : samples)
      size = 31 * size % 1'000'003 + std::ssize(sample.tokens) + std::ssize(sample.items);
    const std::vector<std::int64_t> largest = world().largest({size, -size});
    TRIB_CHECK(largest[0] == -largest[1], .what = "train: ranks measure with other samples");
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
    out_ << "microbatches of " << measured.whole.capacity << ", " << measured.whole.ranks
         << (measured.whole.ranks == 1 ? " rank, tp " : " ranks, tp ") << measured.whole.tp << ", "
         << measured.whole.threads << " threads: forward " << in_ms(measured.whole.forward)
         << ", backward " << in_ms(measured.whole.backward) << ", spread "
         << percent(measured.whole.spread) << std::endl;
  }

  void measure_messages() {
    using config::CollectiveOp;
    bind_as_run_of(crowd_of(ranks()));
    std::unique_ptr<mesh::Mesh> stages;
    const c10::Device device = mesh::open_device(config_.run.device, ranks_.launch.local_rank);
    for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kAllGather,
                                  CollectiveOp::kReduceScatter, CollectiveOp::kSend}) {
      for (const Bytes bytes : collective_sizes()) {
        if (has_collective(profile_, op, ranks(), bytes)) continue;
        if (!goes_on()) return;
        if (!stages)
          stages = std::make_unique<mesh::Mesh>(config::MeshShape{.pp = ranks()}, *ranks_.world,
                                                /*kv_heads=*/0, "profile/stages");
        const config::MeasuredCollective point =
            measure_collective(op, ranks_.mesh(), *stages, bytes, device, {});
        add_collective(profile_, op, point);
        write();
      }
    }
    out_ << "collectives and messages of " << ranks() << " processes: measured" << std::endl;
  }

  const Ranks& ranks_;
  const config::RunConfig& config_;
  config::ModelConfig model_config_;
  config::RunSection given_;
  std::vector<std::int64_t> crowds_;  // numbers of ranks at work at once
  std::int64_t threads_;              // of each rank
  std::string output_;
  std::ostream& out_;
  const StopRequest* stop_ = nullptr;
  config::Profile profile_;
  std::optional<Bytes> process_;  // as the first crowd has seen it
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
    const StopRequest stop(std::chrono::seconds(config.stability.stop_grace_seconds),
                           "this measurement; what was measured is kept");
    code = ProfileJob(request, ranks, config, ranks.leads() ? out : nowhere).run(stop);
  });
  if (ranks.health) ranks.health->finish();
  return code;
}

}  // namespace tributary::train
