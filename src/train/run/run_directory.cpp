#include "train/run/run_directory.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "config/run/read_run_config.h"
#include "core/error.h"
#include "core/file/file_system.h"
#include "data/decode/png_file.h"
#include "memory/plan_log/plan_log_file.h"
#include "train/run/json_lines.h"

namespace tributary::train {

std::vector<std::string> missing_directories(const std::string& path) {
  std::vector<std::string> missing;
  for (std::string each = path; !each.empty() && !exists(real_file_system(), each);
       each = std::filesystem::path(each).parent_path().string())
    missing.push_back(each);
  return missing;
}

void remove_made_directories(const RunDirectory& run, const std::vector<std::string>& made) {
  if (made.empty()) return;
  (void)real_file_system().unlink(run.checkpoints() + "/LOCK");
  for (const std::string& path : made) (void)real_file_system().remove_directory(path);
}

void create_run_directory(const RunDirectory& run, const config::RunConfig& config) {
  make_directories(real_file_system(), run.checkpoints());
  write_run_file(run, "config.yaml", config::write_run_config(config));
}

void cut_run_files(const RunDirectory& run, const TrainState& state) {
  std::filesystem::remove(run.file("error.txt"));
  for (const char* name :
       {"metrics.jsonl", "validation.jsonl", "validation_answers.jsonl", "skipped.jsonl"})
    cut_lines_after(run.file(name), state.step);
  memory::cut_plan_log(run.file(kPlanLog), static_cast<std::uint64_t>(state.step));
  const std::vector<std::string> names = list_directory(real_file_system(), run.path);
  for (const std::string& name : names)
    if (name.starts_with("shapes") && name.ends_with(".jsonl"))
      cut_lines_after(run.file(name), state.step);
  // Lines of quarantine.jsonl have no step: the loader's state lists the bad records until then.
  std::set<data::RecordId> known;
  for (const data::QuarantinedRecord& bad : state.loader.quarantined) known.insert(bad.id);
  for (const std::string& name : names)
    if (name.starts_with("quarantine") && name.ends_with(".jsonl"))
      keep_lines(run.file(name), [&](const Json& line, const std::string& where) {
        return known.erase({whole_number(line, "source", -1, where),
                            whole_number(line, "record", -1, where)}) == 1;
      });
}

void write_run_file(const RunDirectory& run, const std::string& name, const std::string& text) {
  replace_file(real_file_system(), run.file(name), text);
}

void write_run_picture(const RunDirectory& run, const std::string& name,
                       const data::Picture& picture) {
  const std::vector<std::uint8_t> png = data::write_png(picture);
  write_run_file(run, name, std::string(png.begin(), png.end()));
}

}  // namespace tributary::train
