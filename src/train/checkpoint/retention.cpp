#include "train/checkpoint/retention.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>

#include "core/error.h"
#include "core/log.h"
#include "train/checkpoint/manifest.h"

namespace tributary::train {
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kTrash = ".trash-";

/// The validation score in a checkpoint's manifest. A damaged manifest has none: saying so is the
/// loader's task, and retention must not stop a run.
std::optional<double> score_of(FileSystem& files, const std::string& directory) {
  try {
    const std::string path = directory + "/" + kManifestName;
    const Manifest manifest = parse_manifest(read_text_file(files, path, kMaxManifestBytes), path);
    if (manifest.score.empty()) return std::nullopt;
    return std::strtod(manifest.score.c_str(), nullptr);
  } catch (const Error& error) {
    log_warning(str("checkpoint: no score can be read: ", error.what()));
    return std::nullopt;
  }
}

/// The step with the highest score; of equal ones the latest.
std::optional<std::int64_t> best_step(FileSystem& files, const std::string& root,
                                      const std::vector<std::int64_t>& newest_first) {
  std::optional<std::int64_t> best;
  double best_score = 0;
  for (const std::int64_t step : newest_first) {
    const std::optional<double> score = score_of(files, root + "/" + step_name(step));
    if (score && (!best || *score > best_score)) {
      best = step;
      best_score = *score;
    }
  }
  return best;
}

}  // namespace

std::string step_name(std::int64_t step) { return str(kPrefix, step); }

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (parsed.ec != std::errc() || parsed.ptr != end || step < 0 || step_name(step) != name)
    return std::nullopt;
  return step;
}

std::vector<std::int64_t> committed_steps(FileSystem& files, const std::string& root) {
  std::vector<std::int64_t> steps;
  for (const std::string& name : list_directory(files, root))
    if (const std::optional<std::int64_t> step = step_of(name)) steps.push_back(*step);
  std::sort(steps.begin(), steps.end(), std::greater<>());
  return steps;
}

void retire_checkpoints(FileSystem& files, const std::string& root, const RetentionPolicy& policy) {
  const std::vector<std::int64_t> steps = committed_steps(files, root);
  const auto keep = static_cast<std::size_t>(policy.keep_latest);
  if (steps.size() <= keep) return;
  const std::optional<std::int64_t> best =
      policy.keep_best ? best_step(files, root, steps) : std::nullopt;
  std::vector<std::string> trash;
  for (std::size_t i = keep; i < steps.size(); ++i) {
    if (steps[i] == best) continue;
    trash.push_back(str(root, "/", kTrash, step_name(steps[i])));
    if (exists(files, trash.back())) remove_tree(files, trash.back());
    rename_path(files, str(root, "/", step_name(steps[i])), trash.back());
  }
  if (trash.empty()) return;
  // The renames must be durable first: files may vanish from a trash, never from a checkpoint.
  sync_directory(files, root);
  for (const std::string& path : trash) remove_tree(files, path);
}

std::vector<std::string> remove_leftovers(FileSystem& files, const std::string& root,
                                          const std::string& job) {
  std::vector<std::string> foreign;
  for (const std::string& name : list_directory(files, root)) {
    const std::size_t mark = name.find(".tmp-");
    const bool is_temporary =
        mark != std::string::npos && step_of(name.substr(0, mark)).has_value();
    if (is_temporary && !name.substr(mark).starts_with(str(".tmp-", job, "-")))
      foreign.push_back(name);
    else if (is_temporary || name.starts_with(kTrash) || name == "LATEST.part")
      remove_tree(files, root + "/" + name);
  }
  return foreign;
}

}  // namespace tributary::train
