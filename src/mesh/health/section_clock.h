#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "mesh/health/health.h"
#include "mesh/health/root_cause.h"

namespace tributary::mesh {

/// What the main thread says of its work, and how long it may stand still. The main thread calls
/// enter, any thread progress, the watching thread the rest.
class SectionClock {
 public:
  explicit SectionClock(const HealthOptions& options);

  /// units: `now` in seconds of the steady clock, here and below
  void enter(Section section, std::int64_t step, double now);
  void progress() { progress_.fetch_add(1, std::memory_order_relaxed); }

  [[nodiscard]] Beat beat() const;

  struct Stall {
    Beat at = {};
    double seconds = 0;
    double deadline_seconds = 0;
  };
  /// The stall; null while progress came within the deadline of the section. Where ranks
  /// wait for each other's files (setup, load, checkpoint, validation), that of the others counts.
  [[nodiscard]] std::optional<Stall> find_stall(double now, std::uint64_t progress_of_others = 0);
  /// Does not count a time in which the whole process was stopped or suspended.
  void forgive(double seconds) { moved_at_ += seconds; }

 private:
  [[nodiscard]] double deadline_of(Section section) const;
  void record_step(double seconds);

  const double setup_deadline_;
  const double checkpoint_deadline_;
  const double fixed_step_deadline_;

  std::atomic<std::uint64_t> progress_ = 0;
  std::atomic<std::int64_t> step_ = 0;
  std::atomic<Section> section_ = Section::kSetup;
  std::atomic<double> step_deadline_;

  // Used by the main thread: the last durations of steps [s].
  std::vector<double> durations_;
  std::size_t next_duration_ = 0;
  std::optional<double> step_began_;

  // Used by the watching thread.
  std::uint64_t seen_progress_ = 0;
  std::uint64_t seen_of_others_ = 0;
  double moved_at_ = -1;  // below 0: not looked yet
};

}  // namespace tributary::mesh
