#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/run/run_config.h"
#include "core/json.h"
#include "data/sample.h"
#include "train/run/train_state.h"

namespace tributary::train {

/// The file of a run by arrival that says what each step was made of.
inline constexpr const char* kPlanLog = "plan.log";

/// The names inside a run's directory (docs/formats/run_directory.md).
struct RunDirectory {
  std::string path;

  [[nodiscard]] std::string file(const std::string& name) const { return path + "/" + name; }
  [[nodiscard]] std::string checkpoints() const { return file("checkpoints"); }
};

/// The directories on the way to `path` that do not exist yet, the innermost first.
[[nodiscard]] std::vector<std::string> missing_directories(const std::string& path);

/// Removes the directories `made` by a run that was refused, and its lock. A directory that is not
/// empty holds something of another run, and stays.
void remove_made_directories(const RunDirectory& run, const std::vector<std::string>& made);

/// Makes the directory and writes the resolved configuration into it.
///
/// errors: Fault::kResource when it cannot be made or written
void create_run_directory(const RunDirectory& run, const config::RunConfig& config);

/// Cuts from the `.jsonl` files and the plan log what a run wrote after the state that it goes on
/// from, or all of it (step 0), and the error that ended it. What is written whole at the end stays
/// until there is something to replace it.
void cut_run_files(const RunDirectory& run, const TrainState& state);

/// Writes a small file whole: a reader sees the old or the new content.
void write_run_file(const RunDirectory& run, const std::string& name, const std::string& text);
/// Writes a PNG file whole.
void write_run_picture(const RunDirectory& run, const std::string& name,
                       const data::Picture& picture);

}  // namespace tributary::train
