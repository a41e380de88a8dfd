#include "train/summary.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ostream>

#include "core/error.h"
#include "core/file/file_system.h"
#include "train/run/json_lines.h"

namespace tributary::train {
namespace {

constexpr int kAnswersShown = 3;
constexpr std::size_t kLossSteps = 50;  // whose mean is the loss of the run

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

const char* name_of(Loop::End end) {
  switch (end) {
    case Loop::End::kDone:
      return "done";
    case Loop::End::kNoGain:
      return "no_gain";
    case Loop::End::kTerminated:
      return "terminated";
    case Loop::End::kNonFinite:
      return "non_finite";
    case Loop::End::kBadData:
      return "bad_data";
  }
  return "";
}

/// Puts an answer of several lines on one.
std::string on_one_line(std::string text) {
  for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at))
    text.replace(at, 1, " | ");
  return text;
}

/// The mean loss of the last steps that counted, and how many there are; those before a resume are
/// among them.
Json describe_loss(const RunDirectory& run) {
  std::vector<double> losses;
  for (const Json& line : last_lines(run.file("metrics.jsonl"), 2 * kLossSteps)) {
    const auto loss = line.find("loss");
    const auto skipped = line.find("skipped");
    const bool is_skipped = skipped != line.end() && *skipped == true;
    if (loss != line.end() && loss->is_number() && !is_skipped)
      losses.push_back(loss->get<double>());
  }
  if (losses.size() > kLossSteps) losses.erase(losses.begin(), losses.end() - kLossSteps);
  const double sum = std::accumulate(losses.begin(), losses.end(), 0.0);
  return {{"loss", finite(sum / static_cast<double>(losses.size()))},
          {"loss_steps", losses.size()}};
}

/// Writes pictures into a directory of this step, then by one rename the lines that name them; only
/// then removes the pictures of earlier validations.
void write_predictions(const RunDirectory& run, const Session& session,
                       const ValidationResult& result, std::int64_t step) {
  const std::string own = str("step-", step);
  make_directories(real_file_system(), run.file("predictions/" + own));
  std::string lines;
  for (std::size_t i = 0; i < result.predictions.size(); ++i) {
    const Prediction& prediction = result.predictions[i];
    Json line = prediction_json(result, prediction, session.sources);
    line["step"] = step;
    line["images"] = Json::array();
    for (std::size_t k = 0; k < prediction.pictures.size(); ++k) {
      const std::string name = str("predictions/", own, "/", i, "-", k, ".png");
      write_run_picture(run, name, prediction.pictures[k]);
      line["images"].push_back(name);
    }
    lines += line.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
  }
  write_run_file(run, "predictions.jsonl", lines);
  for (const std::string& name : list_directory(real_file_system(), run.file("predictions")))
    if (name != own) remove_tree(real_file_system(), run.file("predictions/" + name));
}

std::int64_t count(const BadRecords& bad) {
  std::int64_t records = 0;
  for (const auto& [reason, number] : bad) records += number;
  return records;
}

}  // namespace

bool has_ended(const RunDirectory& run) {
  constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 20;
  const std::string file = run.file("summary.json");
  if (!exists(real_file_system(), file)) return false;
  const Json summary = parse_json(read_text_file(real_file_system(), file, kMaxBytes), file);
  return summary.value("stopped", "") == name_of(Loop::End::kDone);
}

std::int64_t count_left_out(const Loop& loop) {
  const std::vector<std::int64_t>& sources = loop.state().loader.left_out;
  return std::accumulate(sources.begin(), sources.end(), std::int64_t{0});
}

void write_summary(const RunDirectory& run, const Session& session, const Loop& loop, Loop::End end,
                   const BadRecords& bad) {
  const TrainState& state = loop.state();
  Json summary{
      {"format", "tributary.summary/1"},
      {"name", session.config.run.name},
      {"steps", state.step},
      {"optimizer_steps", state.optimizer_steps},
      {"epochs", static_cast<double>(state.step * session.config.batch.global_samples) /
                     static_cast<double>(session.loader->records())},
      {"tokens", state.tokens},
      {"target_tokens", state.target_tokens},
      {"tokens_per_second", finite(static_cast<double>(state.tokens) / state.train_seconds)},
      {"wall_seconds", loop.wall_seconds()},
      {"peak_bytes", peak_bytes(session.device)},
      {"skipped_steps", state.skipped_steps},
      {"quarantined_samples", count(bad)},
      {"left_out_samples", count_left_out(loop)},
      {"checkpoint", loop.last_checkpoint()},
      {"stopped", name_of(end)}};
  summary.update(describe_loss(run));
  if (loop.final_result()) {
    const ValidationResult& result = *loop.final_result();
    summary["held_out_loss"] = finite(result.mean_loss());
    summary["held_out_samples"] = result.count();
    summary["cut_answers"] = result.count_cut();
    summary["max_new_tokens"] = result.max_new_tokens;
    summary["accuracy"]["overall"] = finite(result.accuracy());
    if (!result.pairs.empty()) add_pairs(result.sum_pairs(), summary);
    if (!result.metrics.empty()) summary["scores"] = scores_json(result, session.sources);
    const bool blind = !result.predictions.empty() && result.predictions.front().blind_answer;
    if (blind) summary["blind_accuracy"] = finite(result.blind_accuracy());
    for (std::size_t i = 0; i < session.sources.size(); ++i) {
      const int source = static_cast<int>(i);
      if (result.count(source) == 0) continue;
      summary["accuracy"][session.sources[i]] = result.accuracy(source);
      if (blind)
        summary["blind_accuracy_by_source"][session.sources[i]] = result.blind_accuracy(source);
    }
    write_predictions(run, session, result, state.step);
  }
  write_run_file(run, "summary.json", summary.dump(2) + "\n");
}

void print_bad_records(std::ostream& out, const RunDirectory& run, const Session& session,
                       const BadRecords& bad) {
  if (bad.empty()) return;
  const std::int64_t records = session.loader->records();
  std::array<char, 32> share{};
  std::snprintf(share.data(), share.size(), "%.1f %%",
                100 * static_cast<double>(count(bad)) / static_cast<double>(records));
  std::string reasons;
  for (const auto& [reason, number] : bad)
    reasons += str(reasons.empty() ? "" : ", ", reason, " ", number);
  out << "bad records: " << count(bad) << " of " << records << " (" << share.data()
      << ") could not be trained on, others took their places: " << reasons << "; listed in "
      << run.file(session.mesh->data_ranks() > 1 ? "quarantine*.jsonl" : "quarantine.jsonl")
      << std::endl;
}

void print_results(std::ostream& out, const Session& session, const ValidationResult& result) {
  if (result.count() == 0) {
    out << describe(result) << "\n";
    return;
  }
  out << "\n" << draw_table(result, session.sources);
  int shown = 0;
  int last_source = -1;  // one of each source, those with pictures first
  for (const bool with_pictures : {true, false}) {
    for (const Prediction& prediction : result.predictions) {
      if (shown == kAnswersShown) break;
      if (prediction.pictures.empty() == with_pictures || prediction.source == last_source)
        continue;
      if (shown == 0) out << "\nanswers to held-out questions:\n";
      out << "  [" << session.sources[static_cast<std::size_t>(prediction.source)] << "] "
          << on_one_line(prediction.question) << "\n    answer: " << on_one_line(prediction.answer)
          << "   expected: " << on_one_line(prediction.expected)
          << (prediction.correct() ? ""
              : prediction.cut     ? "   (wrong, cut)"
                                   : "   (wrong)")
          << "\n";
      last_source = prediction.source;
      ++shown;
    }
  }
  out << std::flush;
}

}  // namespace tributary::train
