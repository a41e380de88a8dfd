#include "train/trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string_view>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "config/family/model_config.h"
#include "config/run/mesh_shape.h"
#include "config/run/read_run_config.h"
#include "core/error.h"
#include "core/launch_variables.h"
#include "core/log.h"
#include "data/loader/encode_sample.h"
#include "data/text/model_template.h"
#include "mesh/device.h"
#include "train/checkpoint/watched_files.h"
#include "train/loop.h"
#include "train/metrics/environment.h"
#include "train/snapshot.h"
#include "train/start/agreement.h"
#include "train/start/load_section.h"
#include "train/start/start_block.h"
#include "train/summary.h"

namespace tributary::train {
namespace {

/// Finds the checkpoint to go on from; its path is empty for a fresh run.
IntactCheckpoint choose_checkpoint(const TrainRequest& request, const std::string& checkpoints,
                                   FileSystem& files) {
  TRIB_REQUIRE(!request.fall_back || request.resume == "auto",
               .what = "train: nothing to fall back from", .where = "--fallback",
               .found = request.resume.empty() ? "no --resume" : "--resume " + request.resume,
               .expected = "--resume auto");
  if (request.fall_back) return newest_intact_checkpoint(checkpoints, files);
  if (!request.resume.empty() && request.resume != "auto")
    return {.path = find_checkpoint(request.resume, files), .damaged = {}};
  const std::string newest = newest_checkpoint(checkpoints, files).value_or("");
  TRIB_REQUIRE(newest.empty() || !request.resume.empty(),
               .what = "train: the run directory already holds a run", .where = "run.dir",
               .found = newest, .expected = "a directory without checkpoints",
               .fix = "add --resume auto to go on from it, or set run.dir to another directory");
  return {.path = newest, .damaged = {}};
}

/// Lets rank 0 choose for all: a directory may change while ranks look at it.
IntactCheckpoint choose_together(const TrainRequest& request, const std::string& checkpoints,
                                 const Ranks& ranks) {
  const mesh::Mesh& mesh = ranks.mesh();
  const LoadSection loading(ranks.health.get());
  WatchedFiles files(real_file_system(), loading.on_progress());
  IntactCheckpoint chosen;
  if (mesh.world().index() == 0) chosen = choose_checkpoint(request, checkpoints, files);
  chosen.path = mesh.world().gather_text(chosen.path).front();
  return chosen;
}

/// Where this rank's loader lists bad records: one rank of each replica does, since all of its
/// ranks find the same.
std::string quarantine_path(const RunDirectory& run, const mesh::Mesh& mesh) {
  if (!mesh.leads_replica()) return "";
  const int rank = mesh.world().index();
  return run.file(rank == 0 ? std::string("quarantine.jsonl") : str("quarantine-", rank, ".jsonl"));
}

/// Puts an opened run to where the checkpoint left it, if there is one.
TrainState restore(Session& session, const TrainRequest& request, const std::string& checkpoint) {
  TrainState state;
  if (!checkpoint.empty()) state = restore_snapshot(session, checkpoint, request.accepted_changes);
  const config::ModelSection& model = request.config.model;
  if (!checkpoint.empty() || model.weights != config::Weights::kRandom) {
    const std::string& given = model.checkpoint.empty() ? model.path : model.checkpoint;
    check_finite(session, checkpoint.empty() ? given : checkpoint, request.allow_nonfinite);
  }
  return state;
}

std::int64_t count_held_out(const Session& session) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < session.sources.size(); ++i)
    count += session.held_out->size(static_cast<int>(i));
  return count;
}

/// Writes environment.json. Returns the FLOP/s that MFU is a share of.
double write_environment(const RunDirectory& run, const TrainRequest& request,
                         const Session& session, const MemoryNeed& need) {
  const double given = request.config.metrics.peak_flops;
  const PeakFlops peak =
      given > 0 ? PeakFlops{.per_second = given, .how = "metrics.peak_flops"}
                : measure_peak_flops(session.device,
                                     session.model->units().front()->shard_value().scalar_type());
  Json environment = describe_environment(request.config.run.device, request.command);
  environment["peak_flops"] = peak.per_second;
  environment["peak_flops_from"] = peak.how;
  environment["parameters"] = need.count_parameters();
  const at::Tensor& values = session.model->units().front()->shard_value();
  for (const ModuleSize& module : need.modules)
    environment["modules"].push_back(
        {{"name", module.name},
         {"parameters", module.parameters},
         {"trained", module.trains()},
         {"trained_parameters", module.trained},
         {"dtype", values.scalar_type() == at::kFloat ? "float32" : "bfloat16"},
         {"bytes", module.parameters * static_cast<std::int64_t>(values.element_size())}});
  environment["training_records"] = session.loader->records();
  environment["held_out_records"] = count_held_out(session);
  write_run_file(run, "environment.json", environment.dump(2) + "\n");
  return peak.per_second;
}

/// Writes the plan that a simulation of the run reads.
void write_plan(const RunDirectory& run, const Session& session) {
  config::Plan plan = session.plan;
  plan.model = std::filesystem::absolute(session.config.model.path).lexically_normal().string();
  write_run_file(run, "plan.json", config::write_plan(plan));
}

/// Makes the run's directory ready for the steps after `state`. Returns the peak FLOP/s.
double begin_run(const RunDirectory& run, const TrainRequest& request, const Session& session,
                 const TrainState& state, const MemoryNeed& need) {
  create_run_directory(run, request.config);
  cut_run_files(run, state);
  write_plan(run, session);
  return write_environment(run, request, session, need);
}

/// Variables that `tributary` and its launcher set themselves, and where a toolkit lies, which no
/// run reads; environment.json has them all.
bool is_own_variable(const std::string& name) {
  constexpr std::array<std::string_view, 3> kOthers{"CUDA_HOME", "CUDA_PATH", "GOMP_SPINCOUNT"};
  // `tributary launch` sets it to share the cores; the line `device` says how many there are.
  if (name == "OMP_NUM_THREADS" && std::getenv(kCommandVariable) != nullptr) return true;
  return std::ranges::count(kLaunchVariables, name) + std::ranges::count(kOthers, name) > 0;
}

void print_variables(std::ostream& out) {
  std::string text;
  for (const auto& [name, value] : list_behaviour_variables())
    if (!is_own_variable(name)) text += str(" ", name, "=", escaped(value));
  if (!text.empty()) out << "set in the environment:" << text << "\n";
}

/// Says what the run will leave out, and which values of its configuration it never reaches.
void print_notes(std::ostream& out, const Session& session,
                 const std::vector<std::string>& findings) {
  for (const std::string& idle : config::list_idle_values(session.config)) log_warning(idle);
  for (const std::string& misfit : list_misfits(session.config.model, session.model_config))
    log_warning(misfit);
  const std::string other_template =
      data::describe_other_template(session.config.model.path, session.model_config.family);
  if (!other_template.empty()) out << other_template << "\n";
  for (const std::string& finding : findings) out << finding << "\n";
  out << std::flush;
}

/// Says what most likely made losses or gradients not finite, and what to try.
std::string explain_non_finite(const config::RunConfig& config, const TrainState& state) {
  if (state.optimizer_steps == 0)
    return "no step was finite, so the weights or the data are at fault; fix: look at the samples "
           "named there, and at the weights in model.path";
  const config::OptimizerSection& optimizer = config.optimizer;
  std::string text = str(state.optimizer_steps,
                         " steps were finite before, so the steps are probably too large "
                         "(optimizer.learning_rate ",
                         optimizer.learning_rate, ", optimizer.clip_norm ", optimizer.clip_norm,
                         "); fix: lower optimizer.learning_rate");
  if (optimizer.clip_norm == 0) text += ", set optimizer.clip_norm=1";
  return text + ", or raise schedule.warmup_steps";
}

/// Says how to go on with a run that its data have ended.
void print_way_on(std::ostream& out, const TrainRequest& request, const Loop& loop) {
  out << "stopped after step " << loop.state().step
      << " by the data; once they are mended, go on with:\n  " << request.resume_command
      << "\n(--accept-change data.digest lets changed files pass, data.bad_at_least=N so many bad "
         "records)"
      << std::endl;
}

/// Says how many records a run left out, if any.
void print_left_out(std::ostream& out, const Session& session, const Loop& loop) {
  const std::int64_t left_out = count_left_out(loop);
  if (left_out > 0)
    out << left_out << (left_out == 1 ? " record was" : " records were")
        << " left out: longer than "
        << data::max_tokens_of(session.config, session.model_config.backbone)
        << " (data.too_long: drop)\n";
}

ExitCode print_end(std::ostream& out, const TrainRequest& request, const RunDirectory& run,
                   const Session& session, const Loop& loop, Loop::End end) {
  print_left_out(out, session, loop);
  switch (end) {
    case Loop::End::kBadData:
      if (session.leads()) log_note(loop.data_refusal());
      print_way_on(out, request, loop);
      return ExitCode::kDataLimit;
    case Loop::End::kTerminated:
      out << "stopped after step " << loop.state().step << "; go on with:\n  "
          << request.resume_command << std::endl;
      return ExitCode::kTerminated;
    case Loop::End::kNonFinite:
      log_note(str("train: stopped: ", loop.state().skips_in_a_row,
                   " steps in a row were not finite; the last sample keys are in ",
                   run.file("skipped.jsonl"), "; ",
                   explain_non_finite(request.config, loop.state())));
      return ExitCode::kNonFinite;
    case Loop::End::kNoGain:
      out << "stopped after step " << loop.state().step << ": "
          << loop.state().validations_without_gain
          << " validations in a row without a gain (validation.stop_after)\n";
      break;
    case Loop::End::kDone:
      break;
  }
  print_results(out, session, *loop.final_result());
  return ExitCode::kDone;
}

/// Writes the error into the run directory. A full disk may refuse; the error itself says more.
void leave_error(const RunDirectory& run, const Error& error) {
  try {
    write_run_file(run, "error.txt", std::string(error.what()) + "\n");
  } catch (const Error& second) {
    log_warning(str("train: error.txt could not be written: ", second.what()));
  }
}

/// Runs the loop. An error that ends it is left in the run directory, where the report finds it.
Loop::End run_loop(Loop& loop, const StopRequest& stop, const RunDirectory& run, bool leads) {
  try {
    const Loop::End end = loop.run(stop);
    if (leads && end == Loop::End::kBadData)
      write_run_file(run, "error.txt", loop.data_refusal() + "\n");
    return end;
  } catch (const Error& error) {
    if (leads) leave_error(run, error);
    throw;
  }
}

/// Says what another value means for a run that goes on; the checkpoint's own rules refuse the
/// rest.
void print_changes(std::ostream& out, const CheckpointFacts& facts,
                   const config::RunConfig& config) {
  try {
    const config::RunConfig before = config::parse_run_config(facts.config, "the checkpoint's");
    const std::string changes = config::describe_changes(before, config);
    if (!changes.empty()) out << "changed since the checkpoint: " << changes << "\n";
  } catch (const Error& error) {
    out << "the checkpoint's configuration is of another version: " << error.what() << "\n";
  }
}

MemoryNeed count_need(const TrainRequest& request, const Ranks& ranks) {
  const config::ModelConfig model = config::read_model_config(request.config.model.path);
  MemoryNeed need =
      count_memory(request.config.model, model,
                   lay_out(request.config, ranks.plan, ranks.pipeline, ranks.meshes),
                   request.config.optimizer, request.config.objective.compares_pairs());
  if (request.estimate_activations)
    need.activations = request.estimate_activations(ranks.mesh().shape());
  return need;
}

MemoryPlace find_place(const config::RunConfig& config, const MemoryNeed& need,
                       const Ranks& ranks) {
  const c10::Device device = mesh::open_device(config.run.device, ranks.launch.local_rank);
  const std::int64_t left = device.is_cpu() ? 0 : mesh::free_device_bytes(device.index());
  return tightest_place(need, {left}, list_memory_limits(), ranks.launch.local_world);
}

/// Trains on the ranks that have met.
TrainEnd train_on(const Ranks& ranks, const TrainRequest& request, std::ostream& out) {
  const config::RunConfig& config = request.config;
  const RunDirectory run{config::run_directory(config)};
  const bool leads = ranks.leads();
  const MemoryNeed need = count_need(request, ranks);
  const MemoryPlace place = find_place(config, need, ranks);
  require_memory(need, place);
  const auto [checkpoint, damaged] = choose_together(request, run.checkpoints(), ranks);
  std::optional<CheckpointFacts> facts;
  if (!checkpoint.empty()) facts = read_checkpoint_facts(checkpoint);
  WatchedFiles files(real_file_system(), progress_of(ranks.health.get()));
  const std::vector<std::string> missing = missing_directories(run.checkpoints());
  // It locks the directory from here on; nothing in it is touched before.
  CheckpointWriter checkpoints({.root = run.checkpoints(),
                                .keep_latest = config.checkpoint.keep_latest,
                                .keep_best = config.checkpoint.keep_best,
                                .async = config.checkpoint.async,
                                .start_step = facts ? facts->step : 0,
                                .damaged = damaged,
                                .ranks = &ranks.mesh().all_ranks().saving(),
                                .on_written =
                                    [drill = ranks.drill.get()](std::int64_t step) {
                                      if (drill != nullptr) drill->on_written(step);
                                    }},
                               files);
  TrainEnd ended{ExitCode::kDone, leads};
  run_for_all(ranks, [&] {
    const Stopwatch start;
    print_start(out, config, ranks, need, place);
    if (const std::string shortage = describe_shortage(need, place); leads && !shortage.empty())
      log_warning(shortage);
    Session session;
    TrainState state;
    try {
      session = open_session(config, ranks, quarantine_path(run, ranks.mesh()),
                             [&](const std::string& line) { out << line << std::endl; });
      require_agreement(session);
      if (session.arrival) session.arrival->read_replayed(session, run);
      state = restore(session, request, checkpoint);
    } catch (const Error&) {
      if (leads) remove_made_directories(run, missing);
      throw;
    }
    if (leads) checkpoints.set_damaged_aside();  // the run is sure to begin

    const double peak_flops =
        leads ? begin_run(run, request, session, state, need) : config.metrics.peak_flops;
    (void)ranks.mesh().world().sum(std::vector<std::int64_t>{0});  // the directory is ready
    if (ranks.drill) out << ranks.drill->announcement() << "\n";
    if (facts) {
      out << "resuming from " << checkpoint << "\n";
      print_changes(out, *facts, config);
    }
    print_variables(out);
    data::DataLook look;
    if (leads) look = session.loader->look();
    print_data(out, session.config,
               size_data(session.config, session.loader->records(), count_held_out(session), look));
    out << "ready after " << describe_seconds(start.seconds()) << std::endl;
    if (leads) print_notes(out, session, look.findings);

    session.loader->end_at(session.config.run.steps * session.config.batch.global_samples);
    if (session.flow)
      session.flow->open(*session.model, ranks.mesh(), *session.loader,
                         progress_of(ranks.health.get()));
    if (session.arrival) session.arrival->open(session, run, state);
    Loop loop(session, run, checkpoints, files, state, peak_flops, out);
    const StopRequest stop(std::chrono::seconds(config.stability.stop_grace_seconds));
    const Loop::End end = run_loop(loop, stop, run, leads);
    const BadRecords bad =
        data::count_reasons(gather_loader_state(session, loop.loader_state()).quarantined);
    if (leads) write_summary(run, session, loop, end, bad);
    ended.code = print_end(out, request, run, session, loop, end);
    print_bad_records(out, run, session, bad);
  });
  return ended;
}

/// Whether a stage of a run that goes on is done. Rank 0 looks for all.
bool is_done(const TrainRequest& stage, const Ranks& ranks) {
  if (stage.resume != "auto") return false;
  const bool is_whole =
      ranks.leads() && has_ended(RunDirectory{config::run_directory(stage.config)});
  return ranks.mesh().world().largest({is_whole ? 1 : 0}).front() != 0;
}

}  // namespace

TrainEnd train(std::span<const TrainRequest> stages, std::ostream& out) {
  std::ostream nowhere(nullptr);
  TrainEnd end;
  c10::intrusive_ptr<c10d::Store> met;
  for (const TrainRequest& stage : stages) {
    const config::RunConfig& config = stage.config;
    const Ranks ranks = join_stage(config, config::read_model_config(config.model.path), met);
    met = ranks.store;
    std::ostream& own = ranks.leads() ? out : nowhere;
    const bool is_last = &stage == &stages.back();
    if (stages.size() > 1) own << "\nstage      " << config::run_directory(config) << std::endl;
    if (!is_last && is_done(stage, ranks)) {
      own << "done before" << std::endl;
    } else {
      run_for_all(ranks, [&] { end = train_on(ranks, stage, own); });
    }
    if (ranks.health) ranks.health->finish();
    if (end.code != ExitCode::kDone) break;
  }
  return end;
}

}  // namespace tributary::train
