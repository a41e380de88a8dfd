#include "train/profile/profile_job.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <ostream>
#include <set>
#include <unistd.h>

#include <ATen/Parallel.h>
#include <torch/version.h>

#include "config/family/known_modules.h"
#include "config/plan/plan.h"
#include "config/run/mesh_shape.h"
#include "core/error.h"
#include "core/file/given_file.h"
#include "core/machine/cores.h"
#include "core/text.h"
#include "mesh/device.h"
#include "train/metrics/environment.h"
#include "train/profile/measure_collectives.h"
#include "train/profile/measure_layers.h"
#include "train/profile/measure_step.h"
#include "train/profile/profile_ledger.h"
#include "train/run/stop_request.h"

namespace tributary::train {
namespace {

constexpr double kMaxSeconds = 86400;

std::string name_of_device(const std::string& device) {
  if (!device.starts_with("cuda")) return describe_cpu();
  const mesh::Devices devices = mesh::list_devices();
  return devices.accelerators.empty() ? device : devices.accelerators.front();
}

ProfileIdentity identity_of(const config::RunConfig& config) {
  constexpr std::uint64_t kMaxBytes = 16 << 20;
  const std::string text = read_given_file(
      config.model.path + "/config.json", kMaxBytes,
      {.what = "train: model cannot be read", .expected = "a directory with a config.json"});
  const std::string name =
      std::filesystem::path(config.model.path).lexically_normal().filename().string();
  const bool on_cpu = !config.run.device.starts_with("cuda");
  return {.model = str(name, " ", config::model_digest(text)),
          .device = name_of_device(config.run.device),
          .libraries = str("torch ", TORCH_VERSION),
          .adapter = config::adapter_key(config.model),
          .cores = on_cpu ? std::ssize(usable_cores()) : 0};
}

/// The configuration without its `parallel` section: each rank runs alone, or all on one axis.
config::RunConfig plain_config(const config::RunConfig& given) {
  config::RunConfig config = given;
  config::ParallelSection parallel;
  parallel.bootstrap_timeout_seconds = given.parallel.bootstrap_timeout_seconds;
  // Ranks outside of a crowd wait as long as it works; the watch still notices lost ones.
  parallel.collective_timeout_seconds = kMaxSeconds;
  parallel.dp_replicate = {0};
  parallel.dp_shard = {1};
  config.parallel = parallel;
  config.batch.balance = config::Balance::kNone;
  config.batch.costs = {};                // it may be what is to be measured
  config.run.bind = config::Bind::kNone;  // each crowd binds in its own way
  config.drill = {};
  for (config::SourceSection& source : config.data.sources) source.start_step = 0;
  return config;
}

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
    TRIB_REQUIRE(!config.objective.compares_pairs(),
                 .what = "train: a step on pairs of answers is not measured",
                 .where = "objective.kind", .found = "dpo", .expected = "next_token",
                 .fix = "profile with records of answers: its passes are the same");
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
    for (std::int64_t tp = 2; tp <= ranks(); ++tp)
      if (ranks() % tp == 0 && has_clock()) measure_tp(tp);
    if (ranks() > 1) measure_messages();
    if (leads() && measured_ == 0)
      out_ << ranks() << (ranks() == 1 ? " process" : " processes") << ": nothing is missing\n";
    if (leads()) out_ << describe_noise(profile_) << '\n';
    return stopped_ ? ExitCode::kTerminated : ExitCode::kDone;
  }

 private:
  [[nodiscard]] int ranks() const { return ranks_.mesh().size(); }
  [[nodiscard]] const mesh::Group& world() const { return ranks_.mesh().world(); }
  [[nodiscard]] bool leads() const { return ranks_.leads(); }
  /// Whether times of all ranks at work can be told: by the clock, or by the CPU time of the one
  /// thread that each has.
  [[nodiscard]] bool has_clock() const { return threads_ == 1 || !crowd_of(ranks()).shares_cores; }

  /// All ranks know what is measured; the first one writes.
  void read_profile_together() {
    std::string text;
    if (leads() && std::filesystem::exists(output_))
      text = config::write_profile(config::read_profile(output_));
    text = world().gather_text(text).front();
    if (!text.empty()) profile_ = config::parse_profile(text, output_);
    require_identity(profile_, identity_of(config_), output_);
    if (drop_joint_attention(profile_))
      out_ << output_ << ": its layers were measured with their attention; they are measured again"
           << std::endl;
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
  [[nodiscard]] LayerJob layer_job() {
    return {.config = config_,
            .model = model_config_,
            .world = world(),
            .threads = threads_,
            .goes_on = [this] { return goes_on(); },
            .bind = [this](const Crowd& crowd) { bind_as_run_of(crowd); },
            .write = [this] { write(); },
            .out = out_};
  }

  /// Measures each rank of a crowd as a run of one process.
  void measure_alone() {
    const bool lacks_step = std::ranges::any_of(
        crowds_, [&](std::int64_t each) { return !has_step(profile_, each, threads_); });
    const LayerJob job = layer_job();
    LayerCut whole;
    for (const std::int64_t each : crowds_) whole.crowds.push_back(crowd_of(each));
    if ((!lacks_layers(profile_, job, whole) && !lacks_step) || !goes_on()) return;
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
    parallel::Layout layout;
    layout.adapters = model::adapter_rules(config_.model);
    measure_layers(job, whole, std::move(layout), session, samples, profile_);
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
    out_ << describe(step) << std::endl;
  }

  /// Binds this thread as a run with the ranks of `crowd` does.
  void bind_as_run_of(const Crowd& crowd) const {
    mesh::Launch launch = ranks_.launch;
    launch.local_world = std::min(crowd.ranks, launch.local_world);
    if (launch.local_rank < launch.local_world) bind_to_cores(cores_to_use(given_, launch));
  }

  /// Measures all ranks as tensor-parallel ranks of replicas that have nothing to do with each
  /// other: the coordinates of pp, of which each holds all layers. Modules whose heads do not
  /// divide stay whole on each rank, as they do where they have degrees of their own.
  void measure_tp(std::int64_t tp) {
    const LayerJob job = layer_job();
    const LayerCut cut{.tp = tp, .whole = find_whole(tp), .crowds = {crowd_of(ranks())}};
    if (cuts_nothing(cut) || !lacks_layers(profile_, job, cut) || !goes_on()) return;
    config::RunConfig config = config_;
    config.parallel.tp = {tp};
    const mesh::Mesh mesh({.pp = ranks() / tp, .tp = tp}, *ranks_.world,
                          model_config_.backbone.kv_heads, str("profile/tp", tp));
    const mesh::Mesh alone_mesh({.pp = ranks()}, *ranks_.world, /*kv_heads=*/0,
                                str("profile/whole", tp));
    const auto mesh_of = [&](const std::string& module) -> const mesh::Mesh& {
      return cut.whole.contains(module) ? alone_mesh : mesh;
    };
    model::ModelLayout layouts(lay_out_on(mesh_of(std::string(config::kBackboneModule)), config));
    for (const config::FrontModule& module : config::front_modules(model_config_))
      if (module.is_encoder() && &mesh_of(module.name) != layouts.backbone.mesh)
        layouts.encoders.emplace(module.name, lay_out_on(mesh_of(module.name), config));
    const Ranks alone = stay_alone(config_, model_config_, ranks_.launch);
    Session session = open_session(config_, alone, "");
    bind_as_run_of(crowd_of(ranks()));
    measure_layers(job, cut, std::move(layouts), session, draw_samples(session), profile_);
  }

  /// The modules that cannot be cut over this many ranks by tp. Projectors lie with the backbone.
  [[nodiscard]] std::set<std::string> find_whole(std::int64_t tp) const {
    const auto divides = [tp](std::int64_t number) { return number % tp == 0; };
    std::set<std::string> whole;
    const config::BackboneConfig& backbone = model_config_.backbone;
    const bool is_cut = divides(backbone.heads) && divides(backbone.mlp_width) &&
                        (divides(backbone.kv_heads) || tp % backbone.kv_heads == 0);
    if (!is_cut) whole.insert(std::string(config::kBackboneModule));
    for (const config::FrontModule& module : config::front_modules(model_config_))
      if (module.is_encoder() ? !divides(module.heads) || !divides(module.mlp_width) : !is_cut)
        whole.insert(module.name);
    return whole;
  }
  [[nodiscard]] bool cuts_nothing(const LayerCut& cut) const {
    return std::ssize(cut.whole) == 1 + std::ssize(config::front_modules(model_config_));
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
