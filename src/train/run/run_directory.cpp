#include "train/run/run_directory.h"

#include <filesystem>

#include "config/read_run_config.h"
#include "core/error.h"
#include "core/file/file_system.h"
#include "train/run/json_lines.h"

namespace tributary::train {

void create_run_directory(const RunDirectory& run, const config::RunConfig& config) {
  make_directories(real_file_system(), run.checkpoints());
  write_run_file(run, "config.yaml", config::write_run_config(config));
}

void cut_run_files(const RunDirectory& run, std::int64_t step) {
  for (const char* name : {"metrics.jsonl", "validation.jsonl", "skipped.jsonl"})
    cut_lines_after(run.file(name), step);
  for (const char* name : {"summary.json", "predictions.jsonl"})
    std::filesystem::remove(run.file(name));
}

void write_run_file(const RunDirectory& run, const std::string& name, const std::string& text) {
  replace_file(real_file_system(), run.file(name), text);
}

}  // namespace tributary::train
