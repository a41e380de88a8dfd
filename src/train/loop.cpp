#include "train/loop.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <utility>

#include "core/log.h"
#include "train/snapshot.h"
#include "train/take_step.h"

namespace tributary::train {
namespace {

constexpr std::int64_t kPicturesPerSource = 8;  // predictions shown with their pictures
constexpr std::int64_t kWrongPicturesPerSource = 32;
constexpr std::int64_t kFollowedPerSource = 8;  // answers kept at each validation

/// Keeps the first answers of each source, to be read beside those of other validations. A line of
/// this step is replaced.
void keep_answers(const std::string& file, const ValidationResult& result, std::int64_t step,
                  const std::vector<std::string>& sources) {
  cut_lines_after(file, step - 1);
  JsonLines lines(file);
  std::vector<std::int64_t> kept(sources.size());
  for (const Prediction& prediction : result.predictions) {
    if (kept[static_cast<std::size_t>(prediction.source)]++ >= kFollowedPerSource) continue;
    Json line = prediction_json(result, prediction, sources);
    line["step"] = step;
    lines.append(line);
  }
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
    shapes_file_.emplace(run_.file(session_.mesh->data_index() == 0
                                       ? "shapes.jsonl"
                                       : str("shapes-", session_.mesh->world().index(), ".jsonl")));
  if (leads() && session.config.metrics.tensorboard) events_.emplace(run_.path);
  if (events_ && state_.step > 0) events_->restart_at(state_.step + 1);
}

Loop::~Loop() = default;

double Loop::wall_seconds() const { return wall_before_ + wall_.seconds(); }

void Loop::record(StepMetrics metrics) {
  const bool skipped = !metrics.skip_reason.empty();
  state_.step = metrics.step;
  state_.optimizer_steps = session_.optimizer->steps();
  state_.tokens += metrics.tokens;
  state_.target_tokens += metrics.target_tokens;
  state_.train_seconds += metrics.seconds.sum();
  if (metrics.target_tokens > 0)  // a batch without targets says nothing of how numbers go
    state_.skips_in_a_row = skipped ? state_.skips_in_a_row + 1 : 0;
  state_.skipped_steps += skipped ? 1 : 0;
  if (shapes_file_) shapes_file_->append(Json::parse(shapes_));
  if (!leads()) return;
  if (session_.encoder_request) session_.encoder_request->after_step(metrics);
  metrics_file_->append(to_json(metrics, session_.sources));
  if (skipped)
    JsonLines(run_.file("skipped.jsonl"))
        .append({{"step", metrics.step},
                 {"rank", 0},
                 {"reason", metrics.skip_reason},
                 {"samples", metrics.sample_keys}});
  if (events_) add_step(*events_, metrics, session_.sources);
  console_.show(metrics);
  if (metrics.flow && !metrics.flow->reallocation.empty())
    console_.say(str("encoders   ", *metrics.flow->wanted, " from step ", metrics.step + 1,
                     " on: ", metrics.flow->reallocation));
}

void Loop::write_trace() const {
  if (last_times_.passes.empty()) return;
  const std::optional<config::Trace> trace =
      gather_trace(last_times_, session_.lanes, *session_.model);
  if (trace) write_run_file(run_, "trace.json", config::write_trace(*trace));
}

std::optional<double> Loop::validate_now(bool is_last, const StopRequest& stop) {
  enter(mesh::Section::kValidation);
  const config::ValidationSection& section = session_.config.validation;
  const Stopwatch watch;
  const InPlace average(session_.optimizer->average());
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
  // A run that is resumed at its end validates again: the line of that step is replaced.
  const std::string file = run_.file("validation.jsonl");
  const bool comes_again = cut_lines_after(file, state_.step - 1) > 0;
  JsonLines(file).append(to_json(result, state_.step, session_.sources));
  keep_answers(run_.file("validation_answers.jsonl"), result, state_.step, session_.sources);
  if (events_ && !comes_again && result.count() > 0) {
    events_->scalar("validation/loss", state_.step, result.mean_loss());
    events_->scalar("validation/accuracy", state_.step, accuracy);
    for (std::size_t metric = 0; metric < result.metrics.size(); ++metric)
      events_->scalar("validation/" + result.metrics[metric], state_.step,
                      result.mean_score(metric));
  }
  const std::string at = str("validation at step ", state_.step);
  console_.say(str(at, ": ", describe(result), " (", describe_seconds(watch.seconds()), ")"));
  if (is_last) final_ = std::move(result);
  return accuracy;
}

void Loop::note_score(double score) {
  const double min = session_.config.validation.min_gain;
  const bool gains =
      std::isfinite(score) && (!state_.best_score || score > *state_.best_score + min);
  state_.validations_without_gain = gains ? 0 : state_.validations_without_gain + 1;
  if (gains) state_.best_score = score;
}

bool Loop::lacks_gain() const {
  const std::int64_t max = session_.config.validation.stop_after;
  return max > 0 && state_.validations_without_gain >= max;
}

void Loop::enter(mesh::Section section) const {
  // A validation and a checkpoint belong to the step before, which is done.
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
  state_.loader = gather_loader_state(session_, loader_state());
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
    return is_asked(stop);  // or else ranks would stop between different collectives
  };
}

std::unique_ptr<TakenStep> Loop::take() {
  enter(mesh::Section::kData);
  std::unique_ptr<TakenStep> taken = std::move(next_);
  if (taken)
    begin_step(session_, *taken);
  else
    taken = std::make_unique<TakenStep>(
        session_.arrival ? session_.arrival->take(session_, state_.step) : take_step(session_));
  const bool is_last = state_.step + 1 == session_.config.run.steps;
  if (!session_.lanes.encodes_ahead() || is_last || is_refused(session_, *taken)) return taken;
  next_ = std::make_unique<TakenStep>(take_step(session_));
  const WaitSeconds now = std::exchange(next_->waiting, {});
  taken->waiting.samples += now.samples;
  taken->waiting.packing += now.packing;
  return taken;
}

std::unique_ptr<TakenStep> Loop::take_again(const TakenStep& taken) {
  enter(mesh::Section::kData);
  session_.flow->begin_again(taken.first_index);
  session_.loader->restore(taken.before);
  auto again = std::make_unique<TakenStep>(take_step(session_));
  again->watch = taken.watch;
  return again;
}

void Loop::end_flow(std::int64_t first_index) {
  session_.flow->end_step();
  if (!session_.arrival) return session_.flow->finish_batch(first_index);
  for (const std::int64_t first : session_.arrival->take_finished())
    session_.flow->finish_batch(first);
}

data::LoaderState Loop::loader_state() const {
  if (session_.arrival) return session_.arrival->state(*session_.loader);
  return next_ ? next_->before : session_.loader->state();
}

Loop::End Loop::run(const StopRequest& stop) {
  const config::RunConfig& config = session_.config;
  const auto due = [&](std::int64_t every) { return every > 0 && state_.step % every == 0; };
  const std::int64_t max_skips =
      config.stability.on_non_finite == config::OnNonFinite::kStop ? 1 : config.stability.max_skips;
  while (state_.step < config.run.steps && !lacks_gain()) {
    const std::optional<StepMetrics> metrics = do_step(stop);
    if (!metrics) {
      if (state_.step > saved_step_) save({});
      enter(mesh::Section::kCheckpoint);
      checkpoints_.finish();
      return End::kBadData;
    }
    record(*metrics);
    if (state_.skips_in_a_row >= max_skips) {
      enter(mesh::Section::kCheckpoint);
      checkpoints_.finish();
      return End::kNonFinite;
    }
    const bool is_last = state_.step == config.run.steps;
    bool ends = stops_;
    std::optional<double> score;
    if (!is_last && !ends && due(config.validation.every)) {
      score = validate_now(/*is_last=*/false, stop);
      if (score) note_score(*score);
      ends = is_asked(stop);
    }
    // The best can be kept only if every state that has a score is saved.
    const bool is_rated = config.checkpoint.keep_best && score;
    if (is_last || ends || is_rated || lacks_gain() || due(config.checkpoint.every)) save(score);
    if (ends && !is_last) {
      enter(mesh::Section::kCheckpoint);
      checkpoints_.finish();
      write_trace();
      return End::kTerminated;
    }
  }
  if (session_.flow) session_.flow->finish();
  // The last checkpoint is being written while the validation runs, which may take long.
  std::optional<double> score;
  if (!is_asked(stop)) score = validate_now(/*is_last=*/true, stop);
  enter(mesh::Section::kCheckpoint);
  checkpoints_.finish();
  write_trace();
  if (!score) return End::kTerminated;
  checkpoints_.rate(state_.step, *score);
  return state_.step < config.run.steps ? End::kNoGain : End::kDone;
}

std::string Loop::last_checkpoint() const {
  const std::optional<std::string> newest = newest_checkpoint(run_.checkpoints());
  return newest ? std::filesystem::relative(*newest, run_.path).string() : "";
}

}  // namespace tributary::train
