#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <sstream>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/machine/cores.h"
#include "core/stopwatch.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/commit.h"
#include "train/checkpoint/compatibility.h"
#include "train/checkpoint/directory_lock.h"
#include "train/checkpoint/retention.h"
#include "train/checkpoint/staging.h"

namespace tributary::train {
namespace {

/// Runs a part of a save on every rank: if it fails on one, it fails on all. Returns the texts of
/// all ranks, in their order.
std::vector<std::string> run_together(const mesh::Group& ranks,
                                      const std::function<std::string()>& part) {
  std::exception_ptr own;
  std::string text;
  try {
    text = "+" + part();
  } catch (const std::exception& error) {
    own = std::current_exception();
    text = str("-", error.what());
  }
  std::vector<std::string> all = ranks.gather_text(text);
  if (own) std::rethrow_exception(own);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].front() == '-')
      TRIB_RAISE(Fault::kResource, .what = "checkpoint: another rank failed",
                 .where = str("rank ", ranks.ranks()[rank]), .found = all[rank].substr(1));
    all[rank].erase(0, 1);
  }
  return all;
}

/// Gives a full disk its space back. What cannot be removed now goes at the next start.
void remove_unfinished(FileSystem& files, const SaveKey& key) {
  try {
    if (exists(files, key.temporary_path())) remove_tree(files, key.temporary_path());
  } catch (const Error& error) {
    log_warning(str("checkpoint: an unfinished save stays behind: ", error.what()));
  }
}

/// What this rank writes: its parts, and on rank 0 what belongs to all.
std::vector<FileReport> write_parts(FileSystem& files, const SaveKey& key,
                                    const StagedContent& content, const mesh::Group& ranks) {
  const std::string name = shard_file_name(ranks.index(), ranks.size());
  std::vector<FileReport> reports{write_shard(files, key, "model", name, content.model),
                                  write_shard(files, key, "optim", name, content.optimizer)};
  if (ranks.index() > 0) return reports;
  reports.push_back(write_extra(files, key, "global.json", content.global));
  reports.push_back(write_shard(files, key, "extra", "rank-00000.safetensors", content.generators));
  return reports;
}

/// Prepares, writes, reports and commits: each step ends on all ranks before the next begins.
void write_checkpoint(FileSystem& files, const SaveKey& key, const StagedContent& content,
                      const mesh::Group& ranks,
                      const std::function<void(std::int64_t)>& on_written) {
  const bool leads = ranks.index() == 0;
  const std::int64_t bytes =
      ranks.sum(std::vector<std::int64_t>{static_cast<std::int64_t>(content.bytes)}).front();
  try {
    run_together(ranks, [&] {
      if (leads) prepare_save(files, key, static_cast<std::uint64_t>(bytes));
      return std::string();
    });
    std::vector<FileReport> own;
    const std::vector<std::string> written = run_together(ranks, [&] {
      own = write_parts(files, key, content, ranks);
      if (on_written) on_written(content.step);
      return ranks.is_single() ? std::string() : write_reports(key, own);
    });
    run_together(ranks, [&] {
      if (!leads) return std::string();
      for (std::size_t rank = 1; rank < written.size(); ++rank)
        for (FileReport& report : parse_reports(written[rank], str("report of rank ", rank)))
          own.push_back(std::move(report));
      commit_save(
          files, key, own,
          {.world = ranks.size(), .config_sha256 = content.config_sha256, .score = content.score});
      return std::string();
    });
  } catch (const std::exception&) {
    if (leads) remove_unfinished(files, key);
    throw;
  }
}

const mesh::Group& this_rank_alone() {
  static const mesh::Group group;
  return group;
}

}  // namespace

class CheckpointWriter::Impl {
 public:
  Impl(CheckpointWriterOptions options, FileSystem& files)
      : options_(std::move(options)),
        files_(files),
        ranks_(options_.ranks != nullptr ? *options_.ranks : this_rank_alone()) {
    TRIB_REQUIRE(options_.keep_latest >= 2, .what = "checkpoint: too few checkpoints would be kept",
                 .where = "checkpoint.keep_latest", .found = str(options_.keep_latest),
                 .expected = "at least 2");
    const std::vector<std::string> holder = run_together(ranks_, [&] {
      if (ranks_.index() > 0) return std::string();
      take_directory();
      return str(lock_->job(), " ", lock_->incarnation());
    });
    std::istringstream(holder.front()) >> job_ >> incarnation_;
  }

  ~Impl() {
    try {
      finish();
    } catch (const std::exception& error) {
      log_warning(str("checkpoint: the last save failed: ", error.what()));
    }
  }

  void set_damaged_aside() {
    for (const std::string& path : options_.damaged) {
      const std::string aside = str(path, ".damaged-", incarnation_);
      rename_path(files_, path, aside);
      log_warning(str("checkpoint: a damaged one is kept as ", aside));
    }
    if (!options_.damaged.empty()) sync_directory(files_, options_.root);
  }

  void save(const CheckpointContent& content, std::optional<double> score) {
    const Stopwatch stall;
    wait();
    if (failure_ && failed_in_a_row_ >= options_.max_failed_saves)
      std::rethrow_exception(std::exchange(failure_, nullptr));
    const SaveKey key{options_.root, job_, incarnation_, content.step};
    if (exists(files_, key.final_path())) return;
    StagedContent staged =
        options_.async ? staging_.copy(content, score) : staging_.borrow(content, score);
    const auto write = [this, key, staged = std::move(staged)] { run(key, staged); };
    if (options_.async)
      writing_ = std::thread([write] {
        unbind_from_cores();
        write();
      });
    else
      write();
    stall_ = stall.elapsed();
  }

  void finish() {
    wait();
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  void rate(std::int64_t step, double score) {
    wait();
    const std::string directory = str(options_.root, "/", step_name(step));
    const std::string path = str(directory, "/", kManifestName);
    if (ranks_.index() > 0 || !std::isfinite(score) || !exists(files_, path)) return;
    try {
      Manifest manifest = parse_manifest(read_text_file(files_, path, kMaxManifestBytes), path);
      manifest.score = score_text(score);
      replace_file(files_, path, write_manifest(manifest));
      sync_directory(files_, directory);
    } catch (const std::exception& error) {
      log_warning(str("checkpoint: a score could not be written down: ", error.what()));
      return;
    }
    retire();
  }

  // Read only between saves, so they need no lock: wait() joins the thread.
  [[nodiscard]] int failed_saves() {
    wait();
    return failed_saves_;
  }
  [[nodiscard]] Nanoseconds last_stall() const { return stall_; }

 private:
  static const std::string& prepare_root(const std::string& root, FileSystem& files) {
    make_directories(files, root);
    return root;
  }

  /// Locks the directory and makes it ready. Only on rank 0.
  void take_directory() {
    lock_.emplace(prepare_root(options_.root, files_));
    std::vector<std::int64_t> steps = committed_steps(files_, options_.root);
    std::erase_if(steps, [&](std::int64_t step) {
      return std::ranges::count(options_.damaged, str(options_.root, "/", step_name(step))) > 0;
    });
    TRIB_REQUIRE(steps.empty() || steps.front() <= options_.start_step,
                 .what = "checkpoint: the directory holds later steps than this run begins with",
                 .where = str(options_.root, "/", step_name(steps.empty() ? 0 : steps.front())),
                 .found = str("begin at step ", options_.start_step),
                 .fix =
                     "continue with --resume auto, or move the later ones away, or choose "
                     "another run.dir");
    for (const std::string& name : remove_leftovers(files_, options_.root, lock_->job()))
      log_warning(
          str("checkpoint: another job's unfinished save stays: ", options_.root, "/", name));
  }

  void wait() {
    if (writing_.joinable()) writing_.join();
  }

  /// Runs in the background thread; meanwhile the other threads call nothing but wait().
  void run(const SaveKey& key, const StagedContent& content) {
    try {
      write_checkpoint(files_, key, content, ranks_, options_.on_written);
      failed_in_a_row_ = 0;
      failure_ = nullptr;
    } catch (const std::exception& error) {
      failure_ = std::current_exception();
      ++failed_saves_;
      ++failed_in_a_row_;
      const bool goes_on = failed_in_a_row_ < options_.max_failed_saves;
      log_warning(str("checkpoint: save ", failed_in_a_row_, " of ", options_.max_failed_saves,
                      " that may fail in a row failed, ",
                      goes_on ? "training goes on: " : "the run ends: ", error.what()));
      return;
    }
    retire();
  }

  void retire() {
    if (ranks_.index() > 0) return;
    try {
      retire_checkpoints(files_, options_.root,
                         {.keep_latest = options_.keep_latest, .keep_best = options_.keep_best});
    } catch (const std::exception& error) {
      log_warning(str("checkpoint: an old checkpoint could not be removed: ", error.what()));
    }
  }

  CheckpointWriterOptions options_;
  FileSystem& files_;
  const mesh::Group& ranks_;
  std::optional<DirectoryLock> lock_;  // of rank 0
  std::string job_;
  std::int64_t incarnation_ = 0;
  Staging staging_;
  std::thread writing_;
  std::exception_ptr failure_;  // of the last save
  int failed_saves_ = 0;
  int failed_in_a_row_ = 0;
  Nanoseconds stall_;
};

CheckpointWriter::CheckpointWriter(CheckpointWriterOptions options, FileSystem& files)
    : impl_(std::make_unique<Impl>(std::move(options), files)) {}
CheckpointWriter::~CheckpointWriter() = default;
void CheckpointWriter::set_damaged_aside() { impl_->set_damaged_aside(); }
void CheckpointWriter::save(const CheckpointContent& content, std::optional<double> score) {
  impl_->save(content, score);
}
void CheckpointWriter::rate(std::int64_t step, double score) { impl_->rate(step, score); }
void CheckpointWriter::finish() { impl_->finish(); }
int CheckpointWriter::failed_saves() const { return impl_->failed_saves(); }
Nanoseconds CheckpointWriter::last_stall() const { return impl_->last_stall(); }

}  // namespace tributary::train
