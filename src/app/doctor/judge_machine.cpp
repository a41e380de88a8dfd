#include <algorithm>
#include <charconv>
#include <cmath>

#include "app/doctor/machine_facts.h"
#include "core/error.h"

namespace tributary::app {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
// The demo peaks at 0.4 GiB. This is twice that, with the page cache of its data.
constexpr std::uint64_t kMinMemory = 1024 * kMiB;
// The demo's data and its three checkpoints take 0.2 GiB.
constexpr std::uint64_t kMinDisk = 1024 * kMiB;
// Libraries, data files, shards of weights and checkpoints, event files: below 200 in the demo.
constexpr std::uint64_t kMinOpenFiles = 256;
constexpr std::uint64_t kMinSharedMemory = 64 * kMiB;

/// The first number of OMP_NUM_THREADS ("4", or a list "4,2"); null where it is not a number.
std::optional<int> read_thread_count(std::string_view text) {
  const auto is_space = [](char letter) { return letter == ' ' || letter == '\t'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  int count = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), count);
  std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  while (!rest.empty() && is_space(rest.front())) rest.remove_prefix(1);
  if (failure != std::errc() || count < 1 || !(rest.empty() || rest.front() == ','))
    return std::nullopt;
  return count;
}

class Judgement {
 public:
  void problem(std::string topic, std::string reason, std::string fix) {
    findings_.push_back(
        {Finding::Kind::kProblem, std::move(topic), std::move(reason), std::move(fix)});
  }
  void limit(std::string topic, std::string reason, std::string fix) {
    findings_.push_back(
        {Finding::Kind::kLimit, std::move(topic), std::move(reason), std::move(fix)});
  }
  [[nodiscard]] std::vector<Finding> take() {
    std::stable_partition(findings_.begin(), findings_.end(), [](const Finding& finding) {
      return finding.kind == Finding::Kind::kProblem;
    });
    return std::move(findings_);
  }

 private:
  std::vector<Finding> findings_;
};

void judge_threads(const MachineFacts& facts, Judgement& judgement) {
  if (!facts.omp_num_threads) return;
  const std::string found = str("OMP_NUM_THREADS is ", escaped(*facts.omp_num_threads));
  const std::optional<int> threads = read_thread_count(*facts.omp_num_threads);
  if (!threads)
    judgement.problem(
        "threads", found + ", which is no number of threads",
        str("unset OMP_NUM_THREADS, or set it to a number from 1 to ", facts.usable_cores));
  else if (*threads > facts.usable_cores)
    judgement.limit("full speed", str(found, " on ", facts.usable_cores, " cores: threads wait"),
                    str("unset OMP_NUM_THREADS, or set it to ", facts.usable_cores));
}

/// Reports a busy machine: at the end of every kernel, threads wait for those that share a core
/// with another program.
void judge_load(const MachineFacts& facts, Judgement& judgement) {
  const int busy = static_cast<int>(std::lround(facts.load));
  if (2 * busy <= facts.usable_cores) return;
  const int left = std::max(1, facts.usable_cores - busy);
  judgement.limit("full speed",
                  str("other programs want ", busy, " of ", facts.usable_cores,
                      " cores (load of the last minute)"),
                  str("set run.threads to what is left, ", left, ", or end them"));
}

void judge_room(const MachineFacts& facts, Judgement& judgement) {
  if (facts.open_files < kMinOpenFiles)
    judgement.problem(
        "open files", str("the limit is ", facts.open_files, ", a run needs ", kMinOpenFiles),
        str("ulimit -n ",
            std::max(kMinOpenFiles, std::min<std::uint64_t>(facts.max_open_files, 1024))));
  const bool is_limited = !facts.tightest_memory.empty();
  const std::uint64_t memory = is_limited ? facts.usable_memory_bytes : facts.free_memory_bytes;
  if (memory < kMinMemory)
    judgement.problem("memory",
                      str(memory / kMiB, " MiB are ", is_limited ? facts.tightest_memory : "free",
                          ", the demo needs ", kMinMemory / kMiB),
                      "end other programs, or lower batch.capacity_tokens");
  if (!facts.folder_is_writable)
    judgement.problem("disk", str("no right to write in ", facts.folder),
                      "change the folder, or set run.dir");
  else if (facts.free_disk_bytes < kMinDisk)
    judgement.problem("disk",
                      str(facts.free_disk_bytes / kMiB, " MiB are free in ", facts.folder,
                          ", data and checkpoints of the demo need ", kMinDisk / kMiB),
                      "make room, or set run.dir to another disk");
  if (facts.free_shared_memory_bytes < kMinSharedMemory)
    judgement.limit("several processes that share memory",
                    str(facts.free_shared_memory_bytes / kMiB, " MiB are free in /dev/shm"),
                    "in a container: --shm-size=1g");
}

void judge_devices(const MachineFacts& facts, Judgement& judgement) {
  if (!facts.engine) {
    judgement.problem("every verb that computes", facts.engine_failure, "make build");
    return;
  }
  if (!facts.engine->devices.empty()) return;
  if (!facts.build.has_cuda_engine)
    judgement.limit("run.device: cuda",
                    str(facts.has_nvidia_driver ? "" : "no NVIDIA driver is present, and ",
                        "this build has no CUDA engine"),
                    facts.has_nvidia_driver ? "make cuda" : "");
  else
    judgement.limit("run.device: cuda",
                    facts.has_nvidia_driver
                        ? facts.engine->device_state
                        : "the CUDA engine is built, no device is present: no NVIDIA driver",
                    "");
  judgement.limit(
      "model.dtype: bfloat16",
      str("only on a CUDA device; ", facts.cpu_has_bf16 ? "on this CPU f32 is used all the same"
                                                        : "this CPU has no bf16 arithmetic"),
      "");
}

}  // namespace

std::vector<Finding> judge_machine(const MachineFacts& facts) {
  Judgement judgement;
  judge_devices(facts, judgement);
  judge_threads(facts, judgement);
  judge_load(facts, judgement);
  judge_room(facts, judgement);
  if (!facts.has_tensorboard)
    judgement.limit("looking at TensorBoard files",
                    "runs write them, no program `tensorboard` is on PATH",
                    "pip install tensorboard; report.html shows the same without it");
  return judgement.take();
}

}  // namespace tributary::app
