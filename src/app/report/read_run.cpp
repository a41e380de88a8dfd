#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "app/report/run_files.h"
#include "app/report/run_record.h"
#include "core/error.h"

namespace tributary::app {
namespace {

StepRecord read_step(const Fields& line) {
  StepRecord step;
  step.step = line.step();
  step.loss = line.number("loss");
  step.learning_rate = line.number("learning_rate");
  step.grad_norm = line.number("grad_norm");
  step.tokens_per_second = line.number("tokens_per_second");
  step.fill = line.number("fill");
  step.padding = line.number("padding");
  step.mfu = line.number("mfu");
  step.hfu = line.number("hfu");
  step.bytes = line.number("bytes");
  step.seconds = line.numbers("seconds");
  step.waiting = line.numbers("waiting");
  step.flow = line.numbers("flow");
  step.reallocation = line.text("reallocation");
  step.loss_by_source = line.numbers("loss_by_source");
  step.drawn = line.tables("drawn");
  step.norms = line.tables("norms");
  step.skipped = line.flag("skipped");
  step.skip_reason = line.text("skip_reason");
  step.sample_ids = line.texts("sample_ids");
  return step;
}

ValidationRecord read_validation(const Fields& line) {
  return {line.step(), line.number("loss"), line.numbers("loss_by_source"),
          line.numbers("accuracy")};
}

Prediction read_prediction(const Fields& line) {
  Prediction prediction;
  prediction.source = line.text("source");
  prediction.key = line.text("key");
  prediction.question = line.text("question");
  prediction.answer = line.text("answer");
  prediction.expected = line.text("expected");
  prediction.correct = line.flag("correct");
  if (line.find("blind_answer") != nullptr) prediction.blind_answer = line.text("blind_answer");
  prediction.images = line.texts("images");
  prediction.cut = line.flag("cut");
  prediction.pictures = line.number("pictures");
  prediction.references = line.texts("references");
  prediction.scores = line.numbers("scores");
  return prediction;
}

SampleRecord read_sample(const Fields& line) {
  SampleRecord sample{.source = line.text("source"),
                      .key = line.text("key"),
                      .tokens = line.number("tokens"),
                      .target_tokens = line.number("target_tokens"),
                      .pieces = {},
                      .images = line.texts("images")};
  for (const Fields& piece : line.objects("pieces"))
    sample.pieces.push_back({.tokens = piece.texts("tokens"),
                             .is_target = piece.flag("target"),
                             .repeats = piece.number("repeats")});
  return sample;
}

Summary read_summary(const Fields& file) {
  Summary summary;
  summary.steps = file.number("steps");
  summary.tokens = file.number("tokens");
  summary.loss = file.number("loss");
  summary.tokens_per_second = file.number("tokens_per_second");
  summary.wall_seconds = file.number("wall_seconds");
  summary.peak_bytes = file.number("peak_bytes");
  summary.accuracy = file.numbers("accuracy");
  summary.blind_accuracy = file.number("blind_accuracy");
  summary.blind_accuracy_by_source = file.numbers("blind_accuracy_by_source");
  summary.scores = file.tables("scores");
  summary.cut_answers = file.number("cut_answers");
  summary.max_new_tokens = file.number("max_new_tokens");
  summary.epochs = file.number("epochs");
  summary.stopped = file.text("stopped");
  return summary;
}

void flatten(const std::string& prefix, const Json& value,
             std::vector<std::pair<std::string, std::string>>& values) {
  if (value.is_object()) {
    for (const auto& [key, item] : value.items())
      flatten(prefix.empty() ? key : prefix + "." + key, item, values);
  } else {
    values.emplace_back(prefix, value.is_string() ? value.get<std::string>() : value.dump());
  }
}

/// Moves the modules out of environment.json, because they get a section of their own.
std::vector<ModuleRecord> take_modules(Json& environment, const std::string& where) {
  std::vector<ModuleRecord> modules;
  if (!environment.is_object() || !environment.contains("modules")) return modules;
  const Json list = environment["modules"];
  environment.erase("modules");
  TRIB_REQUIRE(list.is_array(), .what = "report: no list of modules", .where = where + " modules",
               .found = list.type_name(), .expected = "a list of objects");
  for (const Json& item : list) {
    const Fields fields(item, where);
    modules.push_back({.name = fields.text("name"),
                       .parameters = fields.number("parameters").value_or(0),
                       .trained = fields.flag("trained"),
                       .trained_parameters = fields.number("trained_parameters"),
                       .dtype = fields.text("dtype"),
                       .bytes = fields.number("bytes")});
  }
  return modules;
}

/// Keeps the last line of each step, because a resumed run may have written some steps again.
std::vector<StepRecord> each_step_once(const std::vector<StepRecord>& lines) {
  std::map<std::int64_t, const StepRecord*> last;
  for (const StepRecord& line : lines) last[line.step] = &line;
  std::vector<StepRecord> steps;
  for (const auto& [step, line] : last) steps.push_back(*line);
  return steps;
}

/// The first line of error.txt, else of a file that a rank's watchdog left; else empty.
std::string read_failure(const std::string& directory) {
  std::set<std::string> files;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(directory, failure))
    if (const std::string name = entry.path().filename();
        name == "error.txt" || name.starts_with("watchdog-rank-"))
      files.insert(entry.path().string());  // error.txt sorts first
  if (files.empty()) return "";
  std::string line;
  std::ifstream file(*files.begin());
  std::getline(file, line);
  return line;
}

std::string run_name(const std::string& directory) {
  std::error_code failure;
  const std::filesystem::path full = std::filesystem::weakly_canonical(directory, failure);
  return failure || full.filename().empty() ? directory : full.filename().string();
}

}  // namespace

RunRecord read_run(const std::string& directory) {
  const auto path = [&](const char* name) {
    return (std::filesystem::path(directory) / name).string();
  };
  RunRecord run;
  run.directory = directory;
  run.name = run_name(directory);
  const std::optional<std::string> config = read_whole(path("config.yaml"));
  TRIB_REQUIRE(config.has_value(), .what = "report: no run in this directory",
               .where = path("config.yaml"), .found = std::strerror(errno),
               .expected = "the directory that `tributary train` wrote (run.dir)");
  run.config = *config;
  std::vector<StepRecord> lines;
  const bool has_metrics = read_lines(path("metrics.jsonl"), [&](const Fields& line) {
    lines.push_back(read_step(line));
    run.compares_pairs = run.compares_pairs || line.find("rewards") != nullptr;
  });
  TRIB_REQUIRE(has_metrics, .what = "report: the run has no metrics",
               .where = path("metrics.jsonl"), .found = std::strerror(errno),
               .expected = "one JSON object a step");
  run.steps = each_step_once(lines);
  const auto optional_lines = [&](const char* name, const auto& read) {
    if (!read_lines(path(name), read)) run.missing.emplace_back(name);
  };
  optional_lines("validation.jsonl",
                 [&](const Fields& line) { run.validations.push_back(read_validation(line)); });
  optional_lines("predictions.jsonl",
                 [&](const Fields& line) { run.predictions.push_back(read_prediction(line)); });
  optional_lines("validation_answers.jsonl", [&](const Fields& line) {
    run.answers.push_back({.step = line.step(), .prediction = read_prediction(line)});
  });
  optional_lines("samples.jsonl",
                 [&](const Fields& line) { run.samples.push_back(read_sample(line)); });
  (void)read_lines(path("quarantine.jsonl"), [&](const Fields& line) {
    run.refused.push_back({line.text("key"), line.text("code"), line.text("reason")});
  });
  if (const auto text = read_whole(path("summary.json"))) {
    const Fields summary(parse_json(*text, path("summary.json")), path("summary.json"));
    run.summary = read_summary(summary);
    if (summary.find("name") != nullptr) run.name = summary.text("name");
  } else {
    run.missing.emplace_back("summary.json");
  }
  run.failure = read_failure(directory);
  if (const auto text = read_whole(path("environment.json"))) {
    Json environment = parse_json(*text, path("environment.json"));
    run.modules = take_modules(environment, path("environment.json"));
    flatten("", environment, run.environment);
  } else {
    run.missing.emplace_back("environment.json");
  }
  return run;
}

}  // namespace tributary::app
