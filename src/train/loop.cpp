#include "train/loop.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unistd.h>

#include "core/log.h"
#include "train/balance/flops.h"
#include "train/balance/gather_parts.h"
#include "train/executor/map_stages.h"
#include "train/optimizer/apply_update.h"
#include "train/optimizer/gradient_norm.h"
#include "train/run/step_shapes.h"
#include "train/snapshot.h"
#include "train/step_samples.h"

namespace tributary::train {
namespace {

constexpr std::int64_t kPicturesPerSource = 8;  // predictions shown with their pictures
constexpr std::int64_t kWrongPicturesPerSource = 32;

std::vector<SampleShape> shapes_of(const std::vector<data::EncodedSample>& samples) {
  std::vector<SampleShape> shapes;
  shapes.reserve(samples.size());
  for (const data::EncodedSample& sample : samples) shapes.push_back(sample.shape());
  return shapes;
}

/// A batch without target tokens has no gradient to update with.
Update update_after(const BatchResult& batch, double sum_squared, const Session& session) {
  if (batch.targets == 0)
    return {.learning_rate = next_learning_rate(*session.optimizer, session.config),
            .grad_norm = std::numeric_limits<double>::quiet_NaN(),
            .not_finite = {}};
  return apply_update(*session.model, *session.optimizer, session.config, batch.loss, sum_squared);
}

/// Why the parameters were left as they were; empty: they were not.
std::string reason_to_skip(const BatchResult& batch, const Update& update) {
  if (batch.targets == 0) return "no target token in the batch";
  return update.not_finite.empty() ? "" : "not finite: " + update.not_finite;
}

CollectiveCost cost_between(const mesh::Traffic& before, const mesh::Traffic& after) {
  return {.calls = after.calls - before.calls,
          .bytes = after.bytes - before.bytes,
          .seconds = after.under_way - before.under_way,
          .waited = after.waited - before.waited};
}

}  // namespace

Loop::Loop(Session& session, RunDirectory run, CheckpointWriter& checkpoints, WatchedFiles& files,
           TrainState state, double peak_flops, std::ostream& out)
    : session_(session),
      run_(std::move(run)),
      state_(std::move(state)),
      peak_flops_(peak_flops),
      wall_before_(state_.wall_seconds),
      saved_step_(state_.step),
      console_(out, isatty(STDOUT_FILENO) != 0, session.config.run.steps,
               session.config.metrics.console_every),
      checkpoints_(checkpoints),
      files_(files) {
  if (leads()) metrics_file_.emplace(run_.file("metrics.jsonl"));
  if (session_.mesh->leads_replica())
    shapes_file_.emplace(
        run_.file(leads() ? "shapes.jsonl" : str("shapes-", session_.mesh->rank(), ".jsonl")));
  if (leads() && session.config.metrics.tensorboard) events_.emplace(run_.path);
  if (events_ && state_.step > 0) events_->restart_at(state_.step + 1);
}

double Loop::wall_seconds() const { return wall_before_ + wall_.seconds(); }

std::optional<StepMetrics> Loop::do_step(const StopRequest& stop) {
  const config::RunConfig& config = session_.config;
  Stopwatch whole;
  Stopwatch watch;
  enter(mesh::Section::kData);
  const std::int64_t first_index = session_.loader->next_index();
  const StepSamples taken = take_samples(session_);
  const mesh::Traffic before = session_.mesh->traffic();
  const std::vector<data::EncodedSample>& samples = taken.samples;
  WaitSeconds waiting{.samples = watch.lap()};
  const std::vector<SampleShape> shapes = shapes_of(samples);
  const bool refused = !taken.refusal.empty();
  const OwnPart own = refused ? OwnPart{} : take_part(session_, first_index, shapes);
  waiting.packing = watch.lap();
  BatchResult batch =
      accumulate_gradients(*session_.model, samples, own.microbatches,
                           {.mrope = config.model.mrope,
                            .device = session_.device,
                            .sources = static_cast<int>(session_.sources.size()),
                            .refused = refused,
                            .plan = own.plan,
                            .on_section = [&](mesh::Section section) { enter(section); },
                            .on_action = action_observer()});
  if (batch.refused) {
    data_refusal_ = give_back(session_, taken);
    return std::nullopt;
  }
  StepMetrics metrics;
  metrics.step = state_.step + 1;
  metrics.samples = static_cast<std::int64_t>(samples.size());
  metrics.left_out = taken.left_out;
  metrics.microbatches = own.microbatches.bins();
  metrics.media_decoded = session_.loader->media_decoded();
  metrics.balance = own.balance;
  const bool was_repacked = own.balance.repacked > 0;
  metrics.seconds = batch.seconds;
  metrics.waiting = waiting;
  metrics.seconds.data += waiting.samples + waiting.packing;
  ForwardFlops flops;
  for (const SampleShape& shape : shapes) {
    metrics.tokens += shape.tokens.count;
    metrics.target_tokens += shape.target_tokens.count;
    if (batch.targets > 0) flops += count_forward(session_.model_config, shape);
  }
  std::vector<std::string> run_again = config.model.recompute;
  run_again.insert(run_again.end(), config.model.offload.begin(), config.model.offload.end());
  TrainFlops work = count_training(flops, config.model.freeze, run_again);
  const ReplicaLoad load = load_of(session_.model_config, config.model, shapes);
  watch.lap();
  enter(mesh::Section::kOptimizer);
  const double prepared = now_seconds();
  double sum_squared = batch.targets > 0 ? sum_squared_gradients(session_.model->units()) : 0;
  share_sums(batch, sum_squared, metrics, work, load, stop);
  const Update update = update_after(batch, sum_squared, session_);
  const double updated = now_seconds();
  metrics.seconds.optimizer = watch.lap();
  metrics.loss = batch.loss;
  metrics.by_source = batch.by_source;
  metrics.pipeline = batch.pipeline;
  metrics.learning_rate = update.learning_rate;
  metrics.grad_norm = update.grad_norm;
  metrics.collectives = cost_between(before, session_.mesh->traffic());
  metrics.skip_reason = reason_to_skip(batch, update);
  if (!metrics.skip_reason.empty()) metrics.sample_keys = keys_of_all(samples);
  metrics.fill = static_cast<double>(metrics.tokens) /
                 static_cast<double>(metrics.microbatches * config.batch.capacity_tokens.count);
  if (batch.attention_rows > 0)
    metrics.padding =
        1 - static_cast<double>(metrics.tokens) / static_cast<double>(batch.attention_rows);
  metrics.peak_bytes = peak_bytes(session_.device);
  if (shapes_file_) shapes_ = describe_shapes(metrics.step, shapes, own.microbatches).dump();
  const double step_seconds = whole.seconds();
  metrics.seconds.other = step_seconds - metrics.seconds.sum();
  if (own.predicted && batch.targets > 0)
    session_.planner->correction()->end_step(first_index, *own.predicted,
                                             gather_parts({.replica = session_.mesh->data_index(),
                                                           .microbatches = batch.microbatches,
                                                           .as_planned = !was_repacked,
                                                           .step = step_seconds},
                                                          *session_.mesh));
  const double available = step_seconds * peak_flops_ * session_.mesh->size();
  metrics.mfu_causal = work.causal / available;
  metrics.mfu_full = work.full / available;
  metrics.hfu = work.hardware / available;
  if (batch.targets == 0) return metrics;
  last_times_ = {.began = batch.began,
                 .reduced = batch.reduced,
                 .prepared = prepared,
                 .updated = updated,
                 .seconds = step_seconds,
                 .mfu = metrics.mfu_causal,
                 .peak_bytes = metrics.peak_bytes,
                 .passes = std::move(batch.passes)};
  return metrics;
}

void Loop::share_sums(BatchResult& batch, double& sum_squared, StepMetrics& metrics,
                      TrainFlops& work, const ReplicaLoad& load, const StopRequest& stop) {
  const mesh::Mesh& mesh = *session_.mesh;
  const bool counts = mesh.leads_replica();
  StepSums sums;
  name_slots(batch, *session_.model, sums);
  sums.sum(sum_squared);
  for (std::int64_t* count :
       {&metrics.samples, &metrics.microbatches, &metrics.tokens, &metrics.target_tokens,
        &metrics.left_out, &metrics.balance.repacked, &batch.attention_rows})
    sums.sum(*count, counts);
  sums.sum(metrics.media_decoded);
  for (double* flops : {&work.causal, &work.full, &work.hardware}) sums.sum(*flops, counts);
  ReplicaLoad largest = load;
  ReplicaLoad all = load;
  for (double& each : largest) sums.largest(each);
  for (double& each : all) sums.sum(each, counts);
  std::int64_t asked = stop.asked() ? 1 : 0;
  sums.largest(asked);
  sums.share(mesh.world());
  stops_ = asked != 0;
  if (mesh.size() > 1) metrics.balance.imbalance = imbalance_of(largest, all, mesh.data_ranks());
}

std::vector<std::string> Loop::keys_of_all(const std::vector<data::EncodedSample>& samples) const {
  std::string own;
  if (session_.mesh->leads_replica())
    for (const data::EncodedSample& sample : samples) own += sample.key + "\n";
  std::vector<std::string> all;
  for (const std::string& keys : session_.mesh->world().gather_text(own)) {
    std::istringstream lines(keys);
    for (std::string key; std::getline(lines, key);) all.push_back(key);
  }
  return all;
}

void Loop::record(const StepMetrics& metrics) {
  const bool skipped = !metrics.skip_reason.empty();
  state_.step = metrics.step;
  state_.optimizer_steps = session_.optimizer->steps();
  state_.tokens += metrics.tokens;
  state_.target_tokens += metrics.target_tokens;
  state_.train_seconds += metrics.seconds.sum();
  if (metrics.target_tokens > 0)  // else it says nothing of the numbers that the run has come to
    state_.skips_in_a_row = skipped ? state_.skips_in_a_row + 1 : 0;
  state_.skipped_steps += skipped ? 1 : 0;
  if (shapes_file_) shapes_file_->append(Json::parse(shapes_));
  if (!leads()) return;
  metrics_file_->append(to_json(metrics, session_.sources));
  if (skipped)
    JsonLines(run_.file("skipped.jsonl"))
        .append({{"step", metrics.step},
                 {"rank", 0},
                 {"reason", metrics.skip_reason},
                 {"samples", metrics.sample_keys}});
  if (events_) add_step(*events_, metrics, session_.sources);
  console_.show(metrics);
}

void Loop::write_trace() const {
  if (last_times_.passes.empty()) return;
  const std::optional<config::Trace> trace = gather_trace(
      last_times_, plan_of_run(session_.config, session_.mesh->shape(), session_.model_config),
      *session_.mesh);
  if (trace) write_run_file(run_, "trace.json", config::write_trace(*trace));
}

std::optional<double> Loop::validate_now(bool is_last, const StopRequest& stop) {
  enter(mesh::Section::kValidation);
  const config::ValidationSection& section = session_.config.validation;
  const Stopwatch watch;
  ValidationResult result =
      validate(session_, {.samples_per_source = is_last ? section.final_samples_per_source
                                                        : section.samples_per_source,
                          .blind = is_last && section.blind,
                          .pictures_per_source = is_last ? kPicturesPerSource : 0,
                          .wrong_pictures_per_source = is_last ? kWrongPicturesPerSource : 0,
                          .should_stop = asker(stop)});
  if (result.stopped) return {};
  const double accuracy = result.accuracy();
  if (!leads()) {
    if (is_last) final_ = std::move(result);
    return accuracy;
  }
  // The last validation of a run that is resumed at its end comes again: one line for each step.
  const std::string file = run_.file("validation.jsonl");
  const bool comes_again = cut_lines_after(file, state_.step - 1) > 0;
  JsonLines(file).append(to_json(result, state_.step, session_.sources));
  if (events_ && !comes_again && !result.predictions.empty()) {
    events_->scalar("validation/loss", state_.step, result.mean_loss());
    events_->scalar("validation/accuracy", state_.step, accuracy);
  }
  const std::string at = str("validation at step ", state_.step);
  console_.say(str(at, ": ", describe(result), " (", describe_seconds(watch.seconds()), ")"));
  if (is_last) final_ = std::move(result);
  return accuracy;
}

void Loop::enter(mesh::Section section) const {
  // A validation and a checkpoint belong to the step that is done.
  const bool is_after =
      section == mesh::Section::kValidation || section == mesh::Section::kCheckpoint;
  const std::int64_t step = state_.step + (is_after ? 0 : 1);
  files_.set_watched(section == mesh::Section::kCheckpoint);
  if (session_.health != nullptr) session_.health->enter(section, step);
  if (session_.drill != nullptr) session_.drill->enter(section, step);
}

std::function<void()> Loop::action_observer() const {
  return [this, action = std::int64_t{0}]() mutable {
    if (session_.health != nullptr) session_.health->progress();
    if (session_.drill != nullptr) session_.drill->on_action(state_.step + 1, action++);
  };
}

void Loop::save(std::optional<double> score) {
  enter(mesh::Section::kCheckpoint);
  state_.loader = gather_loader_state(session_);
  if (session_.planner && session_.planner->correction())
    state_.correction = session_.planner->correction()->save().dump();
  state_.wall_seconds = wall_seconds();
  checkpoints_.save(describe_snapshot(session_, state_), score);
  saved_step_ = state_.step;
}

bool Loop::is_asked(const StopRequest& stop) const {
  return session_.mesh->world().largest({stop.asked() ? 1 : 0}).front() != 0;
}

std::function<bool()> Loop::asker(const StopRequest& stop) const {
  return [this, &stop] {
    enter(mesh::Section::kValidation);
    return is_asked(stop);  // together: ranks would else stop between different collectives
  };
}

Loop::End Loop::run(const StopRequest& stop) {
  const config::RunConfig& config = session_.config;
  const auto due = [&](std::int64_t every) { return every > 0 && state_.step % every == 0; };
  const std::int64_t most_skips = config.stability.on_non_finite == config::OnNonFinite::kStop
                                      ? 1
                                      : config.stability.most_skips;
  while (state_.step < config.run.steps) {
    const std::optional<StepMetrics> metrics = do_step(stop);
    if (!metrics) {
      if (state_.step > saved_step_) save({});
      enter(mesh::Section::kCheckpoint);
      checkpoints_.finish();
      return End::kBadData;
    }
    record(*metrics);
    if (state_.skips_in_a_row >= most_skips) {
      enter(mesh::Section::kCheckpoint);
      checkpoints_.finish();
      return End::kNonFinite;
    }
    const bool is_last = state_.step == config.run.steps;
    bool ends = stops_;
    std::optional<double> score;
    if (!is_last && !ends && due(config.validation.every)) {
      score = validate_now(/*is_last=*/false, stop);
      ends = is_asked(stop);
    }
    // The best can be kept only if every state that has a score is saved.
    const bool is_rated = config.checkpoint.keep_best && score;
    if (is_last || ends || is_rated || due(config.checkpoint.every)) save(score);
    if (ends && !is_last) {
      enter(mesh::Section::kCheckpoint);
      checkpoints_.finish();
      write_trace();
      return End::kTerminated;
    }
  }
  // The last checkpoint is on its way before the validation that may take long.
  std::optional<double> score;
  if (!is_asked(stop)) score = validate_now(/*is_last=*/true, stop);
  enter(mesh::Section::kCheckpoint);
  checkpoints_.finish();
  write_trace();
  if (!score) return End::kTerminated;
  checkpoints_.rate(state_.step, *score);
  return End::kDone;
}

std::string Loop::last_checkpoint() const {
  const std::optional<std::string> newest = newest_checkpoint(run_.checkpoints());
  return newest ? std::filesystem::relative(*newest, run_.path).string() : "";
}

}  // namespace tributary::train
