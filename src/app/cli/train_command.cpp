#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/cli/commands.h"
#include "app/engine/engine.h"
#include "app/launch/command_words.h"
#include "app/report/run_record.h"
#include "app/report/write_report.h"
#include "app/requests/job_plan.h"
#include "config/family/model_config.h"
#include "config/run/read_run_config.h"
#include "config/run/stage_configs.h"
#include "core/error.h"
#include "core/file/given_file.h"
#include "core/log.h"
#include "core/text.h"

namespace tributary::app {
namespace {

/// The `generate` command to try next: with a held-out question about a picture, or a template
/// with what `model` takes.
std::string generate_words(const std::string& directory, const RunRecord& run,
                           const std::optional<config::ModelConfig>& model) {
  const auto is_seen = [](const Prediction& each) {
    return each.images.size() == 1 && !each.images.front().starts_with("data:");
  };
  const auto found = std::find_if(run.predictions.begin(), run.predictions.end(), is_seen);
  const bool any = found != run.predictions.end();
  std::string media;
  if (any)
    media = str(" --image ",
                shell_word((std::filesystem::path(directory) / found->images.front()).string()));
  else if (!model || model->vision)
    media = " --image PICTURE.png";
  else if (model->audio)
    media = " --audio SOUND.wav";
  const std::string question = any             ? found->question
                               : media.empty() ? "Who are you?"
                                               : "What is this?";
  return str(" generate ", shell_word(directory), media, " --prompt ", shell_word(question));
}

/// What a run left: the report that was drawn, and its summary where it has one.
Json describe_run(const std::string& directory) {
  Json run{{"directory", directory}, {"report", directory + "/report.html"}};
  const std::string summary = directory + "/summary.json";
  if (std::filesystem::exists(summary))
    run["summary"] = read_given_json(summary, {.what = "app: summary cannot be read"});
  return run;
}

Json describe_data(const data::DataSize& data) {
  return {{"records", data.records},
          {"held_out_records", data.held_out},
          {"estimated_dropped_records", data.estimated_dropped},
          {"estimated_tokens", data.estimated_tokens},
          {"steps_of_epoch", data.steps_of_epoch},
          {"steps", data.steps}};
}

Json describe_imagined(const RankOutcome& outcome) {
  Json stages = Json::array();
  for (const ImaginedRun& run : outcome.imagined)
    stages.push_back({{"parameters", run.parameters},
                      {"trained_parameters", run.trained},
                      {"kept_bytes", run.kept.count},
                      {"kept_on_host_bytes", run.kept_on_host.count},
                      {"activation_bytes", run.activations.count},
                      {"data", run.data ? describe_data(*run.data) : Json()}});
  return {{"dry_run", std::move(stages)}};
}

/// Writes the report of a run that ended well and suggests what to type next.
void finish_run(const config::RunConfig& config, ExitCode code, const std::string& program) {
  const std::string directory = config::run_directory(config);
  const std::string report = directory + "/report.html";
  const RunRecord run = read_run(directory);
  write_report_file(write_report(run), report);
  std::cout << "\nreport: " << report << "\n";
  if (code != ExitCode::kDone) return;
  std::optional<config::ModelConfig> model;
  try {
    model = config::read_model_config(config.model.path);
  } catch (const Error&) {
    // Its directory has gone since the start; the run has ended well nevertheless.
  }
  std::cout << "ask the model:\n  " << program << generate_words(directory, run, model) << "\n";
}

/// Tries to write the report of a run that failed; a full disk may prevent it. A run that was
/// refused before it started has no error in its directory and gets no report.
void draw_failed_run(const std::string& directory, const std::string& error) {
  for (const char* file : {"/config.yaml", "/metrics.jsonl"})
    if (!std::filesystem::exists(directory + file)) return;
  try {
    const RunRecord run = read_run(directory);
    if (run.failure.empty() || !error.starts_with(run.failure)) return;
    const std::string report = directory + "/report.html";
    write_report_file(write_report(run), report);
    std::cout << "\nreport: " << report << "\n";
  } catch (const Error& second) {
    log_warning(str("app: no report of the run was drawn: ", second.what()));
  }
}

/// Options of a dry run mean nothing without it.
void require_dry(const TrainOptions& options) {
  const TrainOptions none;
  const bool has_ranks = options.dry_ranks != none.dry_ranks;
  TRIB_REQUIRE(options.dry_run || (!has_ranks && options.dry_memory_gib == none.dry_memory_gib),
               .what = "app: option without --dry-run", .where = has_ranks ? "--ranks" : "--memory",
               .fix = "add --dry-run, or start the processes with `tributary launch -n N`");
}

/// The values that replace those of the file, the plan among them.
std::vector<std::string> keys_of(const TrainOptions& options, const std::string& plan) {
  std::vector<std::string> keys = options.overrides;
  if (!plan.empty()) keys.push_back("parallel.plan=" + plan);
  return keys;
}

}  // namespace

Run declare_train(Verb& verb) {
  const auto options = std::make_shared<TrainOptions>();
  const auto plan = std::make_shared<std::string>();
  verb.positional("CONFIG.yaml", options->config, "the file that describes the run");
  verb.rest(kKeyWords, options->overrides,
            "values that replace those of the file, for example run.steps=200");
  verb.option("--plan", *plan,
              "a plan.json that decides placement, schedule and batch in place of the file's "
              "`parallel` section");
  verb.option("--resume", options->resume,
              "go on from a checkpoint: `auto` takes the newest of run.dir, or starts afresh "
              "where there is none; or the PATH of a checkpoint");
  verb.option("--fallback", options->fallback,
              "with --resume auto: `previous` goes on from the newest checkpoint that is whole and "
              "sets damaged ones aside");
  verb.option("--accept-change", options->accepted_changes,
              "a KEY of the run that may differ from the checkpoint's, such as data.digest; may be "
              "given several times");
  verb.flag("--allow-nonfinite", options->allow_nonfinite,
            "begin although weights hold NaN or infinity");
  verb.flag("--dry-run", options->dry_run,
            "only say what the run would be: parameters, memory of the rank that needs most, mesh, "
            "data; needs no device");
  verb.option("--ranks", options->dry_ranks, "with --dry-run: processes of the job");
  verb.option("--memory", options->dry_memory_gib,
              "with --dry-run: memory of a rank [GiB]; the run is refused if it cannot fit");
  verb.example(
      "tributary train configs/own_data.yaml run.steps=400\n"
      "  tributary train configs/own_data.yaml --dry-run --ranks 8 --memory 80\n"
      "  tributary train configs/demo.yaml --resume auto");
  verb.note(
      "Often set on the command line (`tributary config --keys` lists every key):\n"
      "  run.dir=DIR  run.steps=N  run.device=cuda  run.threads=N  run.seed=N\n"
      "  model.path=DIR  model.weights=pretrained  model.freeze=[vision]  "
      "model.recompute=[backbone]\n"
      "  data.max_pixels=N  batch.global_samples=N  batch.capacity_tokens=N\n"
      "  optimizer.learning_rate=X  schedule.warmup_steps=N\n"
      "  validation.every=N  checkpoint.every=N  metrics.console_every=N\n"
      "  parallel.dp_shard=N  parallel.tp=N  parallel.pp=N");
  verb.before_launch([options, plan](std::int64_t ranks, const std::vector<std::string>& more) {
    const std::vector<std::string> keys = keys_of(*options, *plan);
    TRIB_REQUIRE(!options->dry_run, .what = "app: a dry run under a launcher", .where = "--dry-run",
                 .found = str("launch -n ", ranks), .expected = "one process, which speaks for all",
                 .fix = str("leave launch out, and add --ranks ", ranks));
    BesideRanks beside;
    std::vector<std::string> of_ranks = keys;
    of_ranks.insert(of_ranks.end(), more.begin(), more.end());
    beside.planned = check_job(options->config, of_ranks, ranks);
    if (beside.planned == 0) return beside;
    beside.words = {"encoder", options->config};
    beside.words.insert(beside.words.end(), keys.begin(), keys.end());
    return beside;
  });
  return [options, plan, answer = verb.answer()] {
    // The results are files, so training goes on when the reader of its output has gone.
    (void)std::signal(SIGPIPE, SIG_IGN);
    options->program = program_words();
    options->overrides = keys_of(*options, *plan);
    require_dry(*options);
    const std::vector<config::RunConfig> stages =
        config::stage_configs(options->config, options->overrides);
    if (options->dry_run) {
      const RankOutcome outcome = load_engine().train(*options);
      answer.give(describe_imagined(outcome));
      return outcome.code;
    }
    const Engine& engine = load_engine(engine_for(stages.front().run.device));
    RankOutcome outcome;
    try {
      outcome = engine.train(*options);
    } catch (const Error& error) {
      for (const config::RunConfig& stage : stages)
        draw_failed_run(config::run_directory(stage), error.what());
      throw;
    }
    if (!outcome.leads) return outcome.code;
    Json runs = Json::array();
    for (const config::RunConfig& stage : stages) {
      const std::string run = config::run_directory(stage);
      if (!std::filesystem::exists(run + "/config.yaml")) continue;
      finish_run(stage, outcome.code, own_program_words());
      runs.push_back(describe_run(run));
    }
    answer.give({{"runs", std::move(runs)}, {"exit_code", static_cast<int>(outcome.code)}});
    return outcome.code;
  };
}

}  // namespace tributary::app
