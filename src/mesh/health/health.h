#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <c10/util/intrusive_ptr.h>

#include "core/exit_code.h"
#include "mesh/launch/launch.h"

namespace c10d {
class Store;
}

namespace tributary::mesh {

/// What the main thread is doing. Each section has its deadline, and messages name it.
enum class Section {
  kSetup,
  kLoad,
  kData,
  kForward,
  kBackward,
  kOptimizer,
  kCheckpoint,
  kValidation
};

/// The name in messages: `setup`, `load`, ...
[[nodiscard]] const char* name_of(Section section);

/// Times in seconds on the steady clock; the defaults are those of
/// docs/theory/reliability.md, "Timers of the watch".
struct HealthOptions {
  double heartbeat_seconds = 1;
  double lost_after_seconds = 5;        // a rank that is silent for longer is lost
  double bootstrap_seconds = 120;       // all ranks must have joined by then
  double setup_deadline_seconds = 600;  // setup, validation, and every section of a step up to the
                                        // end of the first one
  double step_deadline_seconds = 0;     // data, forward, backward, optimizer; 0: the larger of 60 s
                                        // and 8 times the median of the last 20 steps
  double checkpoint_deadline_seconds = 60;  // without progress of a save or a load
  std::string run_directory = {};  // gets watchdog-rank-N.txt; empty: the stacks go to stderr
};

/// Watches all ranks of a job from a thread of its own, and ends the process when one of them is
/// lost, hangs or fails: every rank then prints one line, the same cause on all, and leaves by
/// _exit with the exit code of that cause. A collective that is stuck can not be ended otherwise.
///
/// Rank 0 is the controller. Every other rank holds one connection to it, beside the store: the
/// kernel closes it when a process dies, so a kill is seen at once; a stopped process or a cut
/// network is seen when its heartbeats stay away. Failures that are reported within 200 ms of the
/// first are weighed, and the one that explains the others is the cause.
///
/// Also writes TORCHELASTIC_ERROR_FILE where torchrun asks for it. In a world of one it watches
/// only the own main thread.
class Health {
 public:
  /// collective: every rank, after connect_store
  /// errors:     Fault::kResource when the controller is not reached in bootstrap_seconds
  Health(const Launch& launch, c10d::Store& store, HealthOptions options);
  /// Stops watching. Without finish() before, the other ranks take this one for lost.
  ~Health();
  Health(const Health&) = delete;
  Health& operator=(const Health&) = delete;

  /// Says that the main thread goes on to `section` of `step`; counts as progress.
  void enter(Section section, std::int64_t step);
  /// Says that the work goes on: called at every microbatch, file, block of a checkpoint.
  /// Lock-free, from any thread.
  void progress();

  /// Tells all ranks of a failure of this one and leaves with them. `text` is the line to print
  /// (`input error: ...`), `code` what the process would exit with; kPeerLost and kHang say that it
  /// may be the echo of another rank's failure, which then is named instead.
  [[noreturn]] void report_failure(const std::string& text, ExitCode code);

  /// Takes leave: from here on this rank may go without being missed. Rank 0 returns when all ranks
  /// have taken leave, because it is the one that they watch and that may serve the store.
  ///
  /// collective: every rank, at the very end
  void finish();

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;
};

}  // namespace tributary::mesh
