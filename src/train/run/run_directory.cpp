#include "train/run/run_directory.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "config/read_run_config.h"
#include "core/error.h"
#include "core/file/file_system.h"
#include "train/run/json_lines.h"

namespace tributary::train {

void create_run_directory(const RunDirectory& run, const config::RunConfig& config) {
  make_directories(real_file_system(), run.checkpoints());
  write_run_file(run, "config.yaml", config::write_run_config(config));
}

void cut_run_files(const RunDirectory& run, const TrainState& state) {
  std::filesystem::remove(run.file("error.txt"));
  for (const char* name : {"metrics.jsonl", "validation.jsonl", "skipped.jsonl"})
    cut_lines_after(run.file(name), state.step);
  for (const std::filesystem::directory_entry& entry :
       std::filesystem::directory_iterator(run.path))
    if (const std::string name = entry.path().filename().string();
        name.starts_with("shapes") && name.ends_with(".jsonl"))
      cut_lines_after(entry.path().string(), state.step);
  // Its lines have no step: the loader's state knows which records were found bad until then.
  std::set<data::RecordId> known(state.loader.quarantined.begin(), state.loader.quarantined.end());
  keep_lines(run.file("quarantine.jsonl"), [&](const Json& line) {
    return known.erase({line.value("source", std::int64_t{-1}),
                        line.value("record", std::int64_t{-1})}) == 1;
  });
}

void write_run_file(const RunDirectory& run, const std::string& name, const std::string& text) {
  replace_file(real_file_system(), run.file(name), text);
}

}  // namespace tributary::train
