#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <unistd.h>

#include "config/family/tokenizer_files.h"
#include "config/reading/problems.h"
#include "config/run/read_run_config.h"
#include "core/file/given_file.h"

namespace tributary::config {
namespace {

namespace fs = std::filesystem;

class Surroundings {
 public:
  explicit Surroundings(Problems& problems) : problems_(problems) {}

  void require_file(const std::string& key, const fs::path& path, const std::string& fix = {}) {
    std::error_code failure;
    const fs::file_status status = fs::status(path, failure);
    if (!fs::exists(status)) {
      refuse("config: file does not exist", key, path, failure.message(), fix);
    } else if (!fs::is_regular_file(status)) {
      refuse("config: not a file", key, path, fs::is_directory(status) ? "a directory" : "a device",
             fix);
    } else if (access(path.c_str(), R_OK) != 0) {
      refuse("config: file cannot be read", key, path, std::strerror(errno), fix);
    }
  }

  /// A source is a file or a directory; a pattern of names is looked up when it is opened.
  void require_source(const std::string& key, const fs::path& path) {
    constexpr const char* kFix =
        "correct the path; docs/formats/data.md lists the kinds of sources";
    if (path.string().find_first_of("*{") != std::string::npos) return;
    std::error_code failure;
    if (fs::is_directory(path, failure)) {
      (void)require_folder(key, path, kFix);
    } else {
      require_file(key, path, kFix);
    }
  }

  bool require_folder(const std::string& key, const fs::path& path, const std::string& fix = {}) {
    std::error_code failure;
    const fs::file_status status = fs::status(path, failure);
    if (!fs::exists(status)) {
      refuse("config: directory does not exist", key, path, failure.message(), fix);
    } else if (!fs::is_directory(status)) {
      refuse("config: not a directory", key, path, "a file", fix);
    } else if (access(path.c_str(), R_OK | X_OK) != 0) {
      refuse("config: directory cannot be read", key, path, std::strerror(errno), fix);
    } else {
      return true;
    }
    return false;
  }

  /// Refuses a run directory: it has weights, but not in the layout of a model.
  bool require_no_run(const std::string& key, const fs::path& path) {
    std::error_code failure;
    if (fs::exists(path / "config.json", failure) || !fs::exists(path / "checkpoints", failure))
      return true;
    refuse("config: a run in place of a model", key, path, "checkpoints, and no config.json",
           str("tributary checkpoint export ", path.string(), " -o DIR, then ", key, ": DIR"));
    return false;
  }

  /// Checks that the directory, or else its nearest existing parent, can be written.
  void require_writable(const std::string& key, const fs::path& path) {
    std::error_code failure;
    fs::path nearest = fs::absolute(path, failure).lexically_normal();
    while (!fs::exists(fs::symlink_status(nearest, failure)) && nearest.has_relative_path())
      nearest = nearest.parent_path();
    if (!fs::is_directory(nearest, failure)) {
      refuse("config: run directory cannot be made", key, path,
             nearest.string() + " is not a directory", "set run.dir");
    } else if (access(nearest.c_str(), W_OK | X_OK) != 0) {
      refuse("config: run directory cannot be written", key, path,
             nearest.string() + ": " + std::strerror(errno), "set run.dir");
    }
  }

 private:
  void refuse(const std::string& what, const std::string& key, const fs::path& path,
              const std::string& found, const std::string& fix) {
    problems_.add({.what = what,
                   .where = str(key, " = ", shown_path(path.string())),
                   .found = found,
                   .fix = fix});
  }

  Problems& problems_;
};

/// The fix for a missing model; a path of two words may be the name of a model on a hub.
std::string fix_for_missing_model(const std::string& path) {
  const std::string fix = "model.path names a directory in Hugging Face layout";
  const bool may_be_name =
      std::ranges::count(path, '/') == 1 && path.front() != '.' && !fs::path(path).is_absolute();
  if (!may_be_name) return fix;
  return str(fix, "; nothing is fetched here: hf download ", path, " --local-dir models/",
             fs::path(path).filename().string(), " gets one from the hub");
}

void check_model(const ModelSection& model, Surroundings& check) {
  if (!check.require_folder("model.path", model.path, fix_for_missing_model(model.path)) ||
      !check.require_no_run("model.path", model.path))
    return;
  const fs::path folder = model.path;
  check.require_file("model.path", folder / "config.json");
  if (tokenizer_files(model.path).empty())
    check.require_file("model.path", folder / "tokenizer.json");
  if (!model.checkpoint.empty()) (void)check.require_folder("model.checkpoint", model.checkpoint);
  std::error_code failure;
  if (model.weights == Weights::kPretrained &&
      !fs::exists(folder / "model.safetensors.index.json", failure))
    check.require_file("model.path", folder / "model.safetensors",
                       "model.weights: random starts without weights");
}

}  // namespace

void check_surroundings(const RunConfig& config) {
  Problems problems;
  Surroundings check(problems);
  check_model(config.model, check);
  if (!config.model.adapter.path.empty())
    (void)check.require_folder("adapter.path", config.model.adapter.path,
                               "it names a directory that PEFT has written");
  if (!config.batch.costs.empty())
    check.require_file("batch.costs", config.batch.costs, "measure one: tributary profile");
  for (std::size_t i = 0; i < config.data.sources.size(); ++i) {
    const SourceSection& source = config.data.sources[i];
    const std::string key = str("data.sources.", i, ".");
    check.require_source(key + "path", source.path);
    if (!source.held_out.empty()) check.require_source(key + "held_out", source.held_out);
    if (!source.images.empty()) (void)check.require_folder(key + "images", source.images);
    for (const std::string& root : source.roots) (void)check.require_folder(key + "roots", root);
  }
  check.require_writable("run.dir", run_directory(config));
  problems.raise_if_any("surroundings of the run");
}

}  // namespace tributary::config
