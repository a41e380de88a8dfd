#pragma once

#include <cstdint>
#include <string>

#include "config/run_config.h"
#include "core/json.h"

namespace tributary::train {

/// The names inside a run's directory (docs/formats/run_directory.md).
struct RunDirectory {
  std::string path;

  [[nodiscard]] std::string file(const std::string& name) const { return path + "/" + name; }
  [[nodiscard]] std::string checkpoints() const { return file("checkpoints"); }
};

/// Makes the directory and writes the resolved configuration into it.
///
/// errors: Fault::kResource when it cannot be made or written
void create_run_directory(const RunDirectory& run, const config::RunConfig& config);

/// Cuts what a run wrote after the checkpoint of `step` that it resumes from, or all of it (0).
void cut_run_files(const RunDirectory& run, std::int64_t step);

/// Writes a small file whole: a reader sees the old or the new content.
void write_run_file(const RunDirectory& run, const std::string& name, const std::string& text);

}  // namespace tributary::train
