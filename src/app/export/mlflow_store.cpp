#include "app/export/mlflow_store.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/file/given_file.h"
#include "core/json.h"
#include "core/sha256.h"
#include "core/text.h"

namespace tributary::app {
namespace {

namespace fs = std::filesystem;

std::int64_t milliseconds(double seconds) { return std::llround(1000 * seconds); }

/// An experiment is known by a number of 18 digits, which follows from its name.
std::string experiment_id(const std::string& name) {
  const std::uint64_t number = std::stoull(sha256(name).substr(0, 14), nullptr, 16);
  constexpr std::uint64_t kDigits = 100'000'000'000'000'000;
  return str(kDigits + number % (9 * kDigits));
}

/// A name as MLflow takes it: letters, digits, `_`, `-`, `.`, space and `/`. A part of only dots
/// would lead out of the directory.
std::string allowed_name(std::string name) {
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 &&
        std::string_view("_-. /").find(c) == std::string_view::npos)
      c = '_';
  fs::path safe;
  for (const fs::path& part : fs::path(name).relative_path())
    safe /= part.string().find_first_not_of('.') == std::string::npos ? "_" : part;
  return safe.string();
}

void write_file(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  write_given_file(path.string(), text, {.what = "metrics: file cannot be written"});
}

/// A text of meta.yaml, which is one of JSON too.
std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
}

/// The lines of one figure: when, what, in which step.
std::string metric_lines(const RunHistory& history, const std::string& figure) {
  std::ostringstream lines;
  lines.precision(17);
  for (const auto& [number, step] : history.steps) {
    const auto value = step.figures.find(figure);
    if (value != step.figures.end())
      lines << milliseconds(history.started + step.seconds) << ' ' << value->second << ' ' << number
            << '\n';
  }
  return lines.str();
}

std::string describe_run(const RunHistory& history, const std::string& experiment,
                         const std::string& id, const fs::path& artifacts) {
  // RunStatus of MLflow: 1 running, 3 finished, 4 failed.
  const int status = history.has_ended ? 3 : history.has_failed ? 4 : 1;
  const std::string end =
      status == 1 ? std::string("null") : str(milliseconds(history.started + history.seconds()));
  return str("artifact_uri: ", quoted("file://" + artifacts.string()), "\nend_time: ", end,
             "\nentry_point_name: ''\nexperiment_id: '", experiment,
             "'\nlifecycle_stage: active\nrun_id: ", quoted(id),
             "\nrun_name: ", quoted(history.name),
             "\nsource_name: ''\nsource_type: 4\nsource_version: ''\n"
             "start_time: ",
             milliseconds(history.started), "\nstatus: ", status, "\ntags: []\nuser_id: ''\n");
}

}  // namespace

std::string write_mlflow_run(const RunHistory& history, const std::string& store,
                             const std::string& experiment) {
  const fs::path root = fs::absolute(store).lexically_normal();
  const std::string number = experiment_id(experiment);
  const fs::path parent = root / number;
  const std::string id = history.key.substr(0, 32);
  const fs::path run = parent / id;
  fs::remove_all(run);
  fs::create_directories(root / ".trash");
  if (!fs::exists(parent / "meta.yaml"))
    write_file(parent / "meta.yaml",
               str("artifact_location: ", quoted("file://" + parent.string()),
                   "\ncreation_time: ", milliseconds(history.started), "\nexperiment_id: '", number,
                   "'\nlast_update_time: ", milliseconds(history.started),
                   "\nlifecycle_stage: active\nname: ", quoted(experiment), "\n"));
  fs::create_directories(run / "artifacts");
  std::set<std::string> figures;
  for (const auto& [step_number, step] : history.steps)
    for (const auto& [figure, value] : step.figures) figures.insert(figure);
  for (const std::string& figure : figures)
    write_file(run / "metrics" / allowed_name(figure), metric_lines(history, figure));
  for (const auto& [key, value] : history.settings)
    write_file(run / "params" / allowed_name(key), value);
  write_file(run / "tags" / "mlflow.runName", history.name);
  write_file(run / "meta.yaml", describe_run(history, number, id, run / "artifacts"));
  return run.string();
}

}  // namespace tributary::app
