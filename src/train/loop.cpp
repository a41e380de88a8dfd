#include "train/loop.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unistd.h>

#include "core/log.h"
#include "train/balance/gather_parts.h"
#include "train/executor/map_stages.h"
#include "train/flops.h"
#include "train/gradients.h"
#include "train/optimizer/apply_update.h"
#include "train/run/snapshot.h"
#include "train/run/step_samples.h"
#include "train/run/step_shapes.h"

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

CollectiveCost cost_between(const mesh::Traffic& before, const mesh::Traffic& after) {
  return {.calls = after.calls - before.calls,
          .bytes = after.bytes - before.bytes,
          .seconds = after.under_way - before.under_way,
          .waited = after.waited - before.waited};
}

}  // namespace

Loop::Loop(Session& session, RunDirectory run, CheckpointWriter& checkpoints, TrainState state,
           double peak_flops, std::ostream& out)
    : session_(session),
      run_(std::move(run)),
      state_(std::move(state)),
      peak_flops_(peak_flops),
      wall_before_(state_.wall_seconds),
      saved_step_(state_.step),
      console_(out, isatty(STDOUT_FILENO) != 0, session.config.run.steps,
               session.config.metrics.console_every),
      checkpoints_(checkpoints) {
  if (leads()) metrics_file_.emplace(run_.file("metrics.jsonl"));
  if (session_.mesh->leads_replica())
    shapes_file_.emplace(
        run_.file(leads() ? "shapes.jsonl" : str("shapes-", session_.mesh->rank(), ".jsonl")));
  if (leads() && session.config.metrics.tensorboard) events_.emplace(run_.path);
  if (events_ && state_.step > 0) events_->restart_at(state_.step + 1);
}

void Loop::write_events(const StepMetrics& metrics) {
  if (!events_) return;
  const auto scalar = [&](const std::string& tag, double value) {
    events_->scalar(tag, metrics.step, value);
  };
  scalar("loss", metrics.loss);
  for (std::size_t i = 0; i < metrics.by_source.size(); ++i)
    if (metrics.by_source[i].targets > 0)
      scalar("loss_by_source/" + session_.sources[i], metrics.by_source[i].mean());
  scalar("learning_rate", metrics.learning_rate);
  scalar("grad_norm", metrics.grad_norm);
  scalar("tokens_per_second", metrics.tokens_per_second());
  scalar("target_tokens", static_cast<double>(metrics.target_tokens));
  scalar("mfu_causal", metrics.mfu_causal);
  scalar("mfu_full", metrics.mfu_full);
  scalar("hfu", metrics.hfu);
  scalar("fill", metrics.fill);
  scalar("padding", metrics.padding);
  scalar("waiting/samples", metrics.waiting.samples);
  scalar("waiting/packing", metrics.waiting.packing);
  scalar("seconds/data", metrics.seconds.data);
  scalar("seconds/forward", metrics.seconds.forward);
  scalar("seconds/backward", metrics.seconds.backward);
  scalar("seconds/optimizer", metrics.seconds.optimizer);
}

double Loop::wall_seconds() const { return wall_before_ + wall_.seconds(); }

std::optional<StepMetrics> Loop::do_step() {
  const config::RunConfig& config = session_.config;
  Stopwatch whole;
  Stopwatch watch;
  enter(mesh::Section::kData);
  const std::int64_t first_index = session_.loader->next_index();
  const StepSamples taken = take_samples(session_);
  if (!taken.refusal.empty()) {
    data_refusal_ = taken.refusal;
    return std::nullopt;
  }
  const mesh::Traffic before = session_.mesh->traffic();
  const std::vector<data::EncodedSample>& samples = taken.samples;
  WaitSeconds waiting{.samples = watch.lap()};
  const std::vector<SampleShape> shapes = shapes_of(samples);
  const OwnPart own = take_part(session_, first_index, shapes);
  waiting.packing = watch.lap();
  BatchResult batch =
      accumulate_gradients(*session_.model, samples, own.microbatches,
                           {.mrope = config.model.mrope,
                            .device = session_.device,
                            .sources = static_cast<int>(session_.sources.size()),
                            .plan = own.plan,
                            .on_section = [&](mesh::Section section) { enter(section); },
                            .on_action = action_observer()});
  watch.lap();
  enter(mesh::Section::kOptimizer);
  const double prepared = mesh::now_seconds();
  const Update update = apply_update(*session_.model, *session_.optimizer, config, batch.loss);
  const double updated = mesh::now_seconds();

  StepMetrics metrics;
  metrics.step = state_.step + 1;
  metrics.loss = batch.loss;
  metrics.learning_rate = update.learning_rate;
  metrics.grad_norm = update.grad_norm;
  metrics.samples = static_cast<std::int64_t>(samples.size());
  metrics.left_out = taken.left_out;
  metrics.microbatches = own.microbatches.bins();
  metrics.balance = own.balance;
  const bool was_repacked = own.balance.repacked > 0;
  metrics.by_source = batch.by_source;
  metrics.seconds = batch.seconds;
  metrics.waiting = waiting;
  metrics.seconds.data += waiting.samples + waiting.packing;
  metrics.pipeline = batch.pipeline;
  metrics.collectives = cost_between(before, session_.mesh->traffic());
  metrics.seconds.optimizer = watch.lap();
  ForwardFlops flops;
  for (const SampleShape& shape : shapes) {
    metrics.tokens += shape.tokens.count;
    metrics.target_tokens += shape.target_tokens.count;
    flops += count_forward(session_.model_config, shape);
  }
  if (!update.not_finite.empty()) {
    metrics.skip_reason = "not finite: " + update.not_finite;
    for (const data::EncodedSample& sample : samples) metrics.sample_keys.push_back(sample.key);
  }
  std::vector<std::string> run_again = config.model.recompute;
  run_again.insert(run_again.end(), config.model.offload.begin(), config.model.offload.end());
  TrainFlops work = count_training(flops, config.model.freeze, run_again);
  auto attention_rows = static_cast<double>(batch.attention_rows);
  add_over_replicas(metrics, work, attention_rows,
                    load_of(session_.model_config, config.model, shapes));
  metrics.fill = static_cast<double>(metrics.tokens) /
                 static_cast<double>(metrics.microbatches * config.batch.capacity_tokens.count);
  metrics.padding = 1 - static_cast<double>(metrics.tokens) / attention_rows;
  metrics.peak_bytes = peak_process_bytes();
  if (shapes_file_) shapes_ = describe_shapes(metrics.step, shapes, own.microbatches).dump();
  const double step_seconds = whole.seconds();
  metrics.seconds.other = step_seconds - metrics.seconds.sum();
  if (own.predicted)
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

void Loop::add_over_replicas(StepMetrics& metrics, TrainFlops& work, double& attention_rows,
                             const ReplicaLoad& load) const {
  const mesh::Mesh& mesh = *session_.mesh;
  if (mesh.size() == 1) return;
  std::vector<double> values{static_cast<double>(metrics.samples),
                             static_cast<double>(metrics.microbatches),
                             static_cast<double>(metrics.tokens),
                             static_cast<double>(metrics.target_tokens),
                             work.causal,
                             work.full,
                             work.hardware,
                             attention_rows,
                             static_cast<double>(metrics.balance.repacked),
                             static_cast<double>(metrics.left_out)};
  const std::size_t first_load = values.size();
  const auto replicas = static_cast<std::size_t>(mesh.data_ranks());
  values.resize(first_load + replicas * load.size());
  std::ranges::copy(load, values.begin() + static_cast<std::ptrdiff_t>(
                                               first_load + mesh.data_index() * load.size()));
  if (!mesh.leads_replica()) std::ranges::fill(values, 0.0);
  values = mesh.world().sum(std::move(values));
  const auto count = [&](std::size_t i) { return static_cast<std::int64_t>(values[i]); };
  metrics.samples = count(0);
  metrics.microbatches = count(1);
  metrics.tokens = count(2);
  metrics.target_tokens = count(3);
  work = {.full = values[5], .causal = values[4], .hardware = values[6]};
  attention_rows = values[7];
  metrics.balance.repacked = count(8);
  metrics.left_out = count(9);
  std::vector<ReplicaLoad> loads(replicas);
  for (std::size_t i = first_load; i < values.size(); ++i)
    loads[(i - first_load) / load.size()][(i - first_load) % load.size()] = values[i];
  metrics.balance.imbalance = imbalance_of(loads);
  if (metrics.skip_reason.empty()) return;
  std::string own;
  for (const std::string& key : metrics.sample_keys)
    if (mesh.leads_replica()) own += key + "\n";
  metrics.sample_keys.clear();
  for (const std::string& keys : mesh.world().gather_text(own)) {
    std::istringstream lines(keys);
    for (std::string key; std::getline(lines, key);) metrics.sample_keys.push_back(key);
  }
}

void Loop::record(const StepMetrics& metrics) {
  const bool skipped = !metrics.skip_reason.empty();
  state_.step = metrics.step;
  state_.optimizer_steps = session_.optimizer->steps();
  state_.tokens += metrics.tokens;
  state_.target_tokens += metrics.target_tokens;
  state_.train_seconds += metrics.seconds.sum();
  state_.skips_in_a_row = skipped ? state_.skips_in_a_row + 1 : 0;
  state_.skipped_steps += skipped ? 1 : 0;
  if (shapes_file_) shapes_file_->append(Json::parse(shapes_));
  if (!leads()) return;
  metrics_file_->append(to_json(metrics, session_.sources));
  if (skipped)
    JsonLines(run_.file("skipped.jsonl"))
        .append({{"step", metrics.step},
                 {"rank", 0},
                 {"first_not_finite", metrics.skip_reason},
                 {"samples", metrics.sample_keys}});
  write_events(metrics);
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
  console_.say(result.predictions.empty()
                   ? str(at, ": no held-out sample could be used")
                   : str(at, ": ", describe(result), " (", describe_seconds(watch.seconds()), ")"));
  if (is_last) final_ = std::move(result);
  return accuracy;
}

void Loop::enter(mesh::Section section) const {
  // A validation and a checkpoint belong to the step that is done.
  const bool is_after =
      section == mesh::Section::kValidation || section == mesh::Section::kCheckpoint;
  const std::int64_t step = state_.step + (is_after ? 0 : 1);
  if (session_.health != nullptr) session_.health->enter(section, step);
  if (session_.drill != nullptr) session_.drill->enter(section, step);
}

std::function<void()> Loop::action_observer() const {
  if (session_.drill == nullptr) return {};
  return [this, action = std::int64_t{0}]() mutable {
    session_.drill->on_action(state_.step + 1, action++);
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
    const std::optional<StepMetrics> metrics = do_step();
    if (!metrics) {
      if (state_.step > saved_step_) save({});
      checkpoints_.finish();
      return End::kBadData;
    }
    record(*metrics);
    if (state_.skips_in_a_row >= most_skips) {
      checkpoints_.finish();
      return End::kNonFinite;
    }
    const bool is_last = state_.step == config.run.steps;
    std::optional<double> score;
    if (!is_last && !is_asked(stop) && due(config.validation.every))
      score = validate_now(/*is_last=*/false, stop);
    // The best can be kept only if every state that has a score is saved.
    const bool is_rated = config.checkpoint.keep_best && score;
    const bool ends = is_asked(stop);
    if (is_last || ends || is_rated || due(config.checkpoint.every)) save(score);
    if (ends && !is_last) {
      checkpoints_.finish();
      write_trace();
      return End::kTerminated;
    }
  }
  // The last checkpoint is on its way before the validation that may take long.
  std::optional<double> score;
  if (!is_asked(stop)) score = validate_now(/*is_last=*/true, stop);
  checkpoints_.finish();
  write_trace();
  if (!score) return End::kTerminated;
  checkpoints_.rate(state_.step, *score);
  return End::kDone;
}

std::string Loop::last_checkpoint() const {
  const std::optional<std::string> newest = newest_checkpoint(run_.checkpoints());
  if (!newest) return "";
  return std::filesystem::relative(*newest, run_.path).string();
}

}  // namespace tributary::train
