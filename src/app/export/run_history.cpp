#include "app/export/run_history.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/report/compare_runs.h"
#include "app/report/run_files.h"
#include "core/sha256.h"

namespace tributary::app {
namespace {

/// Adds the numbers of a line by their paths, `seconds/forward`, behind a prefix.
void add_figures(const std::string& prefix, const Json& object,
                 std::map<std::string, double>& figures) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) {
      add_figures(prefix + key + "/", value, figures);
    } else if (value.is_boolean()) {
      figures[prefix + key] = value.get<bool>() ? 1 : 0;
    } else if (value.is_number()) {
      figures[prefix + key] = value.get<double>();
    }
  }
}

/// When the run began: as it says itself, else when its configuration was written.
double start_of(const RunRecord& run) {
  for (const auto& [key, value] : run.environment) {
    std::tm parts{};
    if (key == "started_at" && strptime(value.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts) != nullptr)
      return static_cast<double>(timegm(&parts));
  }
  std::error_code failure;
  const auto written = std::filesystem::last_write_time(
      std::filesystem::path(run.directory) / "config.yaml", failure);
  if (failure) return 0;
  const auto since = std::chrono::file_clock::to_sys(written).time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

}  // namespace

RunHistory read_history(const std::string& directory) {
  const RunRecord run = read_run(directory);
  const std::filesystem::path root = directory;
  RunHistory history;
  history.name = run.name;
  std::error_code failure;
  history.key = sha256(std::filesystem::weakly_canonical(root, failure).string());
  history.started = start_of(run);
  history.has_ended = run.summary.has_value();
  history.has_failed = !run.failure.empty();
  for (const auto& [key, value] : read_values(run))
    history.settings[key] = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  double seconds = 0;
  for (const StepRecord& step : run.steps)
    history.steps[step.step].seconds = seconds += wall_seconds(step);
  const auto add_lines = [&](const char* file, const std::string& prefix) {
    (void)read_lines((root / file).string(), [&](const Fields& line) {
      std::map<std::string, double>& figures = history.steps[line.step()].figures;
      add_figures(prefix, line.object(), figures);
      figures.erase(prefix + "step");
    });
  };
  add_lines("metrics.jsonl", "");
  add_lines("validation.jsonl", "validation/");
  return history;
}

}  // namespace tributary::app
