#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/engine/answerer.h"
#include "app/engine/engine_verbs.h"
#include "config/family/model_config.h"
#include "core/error.h"
#include "core/file/given_file.h"
#include "core/stopwatch.h"
#include "train/metrics/console.h"
#include "train/start/ranks.h"
#include "train/start/session.h"
#include "train/validation/validate.h"

namespace tributary::app {
namespace {

/// The run that reads the data: nothing trains, and ranks that share no copy have one of their own.
config::RunConfig describe_run(const EvaluateOptions& options, const Answerer& answerer) {
  config::RunConfig run;
  run.run.device = options.device;
  run.run.threads = answerer.run.run.threads;
  run.run.dir = std::filesystem::absolute(options.output).parent_path();
  run.model.path = answerer.directory;
  run.model.dtype = dtype_on(answerer, options.device);
  run.model.mrope = answerer.run.model.mrope;
  run.model.adapter = answerer.run.model.adapter;
  run.data = answerer.run.data;
  run.data.system_prompt = options.system.value_or(answerer.run.data.system_prompt);
  run.data.sources = {options.data};
  run.data.held_out_fraction = 0;
  run.data.max_tokens = 0;
  run.validation.max_new_tokens = options.max_new_tokens;
  run.parallel.dp_replicate = {0};  // whatever ranks there are
  run.parallel.pp = {options.pp};
  run.parallel.dp_shard = {options.dp_shard};
  run.parallel.tp = {options.tp};
  return run;
}

/// Sets what no configuration of a training run may hold: all of a source is held out, and samples
/// may be longer than what is answered together.
void hold_out_all(const EvaluateOptions& options, config::RunConfig& run) {
  run.data.sources.front().held_out = options.data.path;
  run.validation.metrics = options.metrics;
  const std::int64_t context = config::read_model_config(run.model.path).backbone.max_positions;
  run.data.max_tokens = std::max<std::int64_t>(1, context - options.max_new_tokens);
  run.batch.capacity_tokens = {options.capacity_tokens};
}

void write_records(const EvaluateOptions& options, const train::ValidationResult& result,
                   const std::vector<std::string>& sources) {
  std::string lines;
  for (const train::Prediction& prediction : result.predictions)
    lines += train::prediction_json(result, prediction, sources)
                 .dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) +
             "\n";
  write_given_file(options.output, lines, {.what = "app: file cannot be written"});
}

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

void write_summary(const EvaluateOptions& options, const train::ValidationResult& result,
                   double seconds) {
  std::int64_t tokens = 0;
  for (const train::Prediction& prediction : result.predictions) tokens += prediction.answer_tokens;
  Json summary{{"format", "tributary.evaluation/1"},
               {"model", options.model},
               {"data", options.data.path},
               {"samples", result.predictions.size()},
               {"refused", result.refused},
               {"loss", finite(result.mean_loss())},
               {"exact_match", finite(result.accuracy())},
               {"cut", result.count_cut()},
               {"max_new_tokens", result.max_new_tokens},
               {"answer_tokens", tokens},
               {"seconds", seconds}};
  for (std::size_t metric = 0; metric < result.metrics.size(); ++metric)
    summary[result.metrics[metric]] = finite(result.mean_score(metric));
  if (options.blind) summary["blind_exact_match"] = finite(result.blind_accuracy());
  write_given_file(options.summary, summary.dump(2) + "\n",
                   {.what = "app: file cannot be written"});
}

train::ValidationResult answer_all(const EvaluateOptions& options, const train::Session& session) {
  if (session.health != nullptr) session.health->enter(mesh::Section::kValidation, 0);
  train::ValidationResult result = train::validate(session, {.samples_per_source = options.limit,
                                                             .blind = options.blind,
                                                             .temperature = options.temperature,
                                                             .top_p = options.top_p,
                                                             .seed = options.seed,
                                                             .should_stop = [&session] {
                                                               if (session.health != nullptr)
                                                                 session.health->progress();
                                                               return false;
                                                             }});
  if (result.predictions.empty()) {
    const Result<data::HeldOutSample> first = session.held_out->load(/*source=*/0, /*position=*/0);
    TRIB_RAISE(
        Fault::kInput, .what = "app: no record could be answered", .where = options.data.path,
        .found =
            str(result.refused, " bad ones",
                first ? ""
                      : str("; the first is ", first.refusal().code, ": ", first.refusal().reason)),
        .expected = "records with a question and an answer that this model takes",
        .exit = ExitCode::kDataLimit);
  }
  return result;
}

}  // namespace

RankOutcome run_evaluate(const EvaluateOptions& options) {
  const Answerer answerer = find_answerer(options.model);
  config::RunConfig run = describe_run(options, answerer);
  const train::Ranks ranks = train::join_ranks(run, config::read_model_config(answerer.directory));
  hold_out_all(options, run);
  train::run_for_all(ranks, [&] {
    const train::Session session = train::open_evaluation(
        run, ranks, [&](model::Model& model) { load_weights(answerer, model); });
    const Stopwatch watch;
    const train::ValidationResult result = answer_all(options, session);
    if (!ranks.leads()) return;
    write_records(options, result, session.sources);
    write_summary(options, result, watch.seconds());
    std::cout << train::draw_table(result, session.sources) << train::describe(result) << " ("
              << train::describe_seconds(watch.seconds()) << ")\nwrote " << options.output
              << " and " << options.summary << std::endl;
  });
  if (ranks.health) ranks.health->finish();
  return {.leads = ranks.leads()};
}

}  // namespace tributary::app
