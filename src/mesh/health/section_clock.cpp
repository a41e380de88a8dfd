#include "mesh/health/section_clock.h"

#include <algorithm>

namespace tributary::mesh {
namespace {

constexpr std::size_t kMaxDurations = 20;
constexpr double kMinStepDeadline = 60;  // s
constexpr double kMedians = 8;

bool is_of_a_step(Section section) {
  return section == Section::kData || section == Section::kForward ||
         section == Section::kBackward || section == Section::kOptimizer;
}

}  // namespace

SectionClock::SectionClock(const HealthOptions& options)
    : setup_deadline_(options.setup_deadline_seconds),
      checkpoint_deadline_(options.checkpoint_deadline_seconds),
      fixed_step_deadline_(options.step_deadline_seconds),
      // The first step allocates, tunes and connects: it has the time of the set-up.
      step_deadline_(options.setup_deadline_seconds) {}

void SectionClock::enter(Section section, std::int64_t step, double now) {
  const bool is_next = step > step_.load(std::memory_order_relaxed) || !step_began_;
  if (is_of_a_step(section) && is_next) {
    if (step_began_) record_step(now - *step_began_);
    step_began_ = now;
  }
  step_.store(step, std::memory_order_relaxed);
  section_.store(section, std::memory_order_relaxed);
  progress();
}

void SectionClock::record_step(double seconds) {
  if (durations_.size() < kMaxDurations) {
    durations_.push_back(seconds);
  } else {
    durations_[next_duration_++ % kMaxDurations] = seconds;
  }
  std::vector<double> sorted = durations_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  step_deadline_ = fixed_step_deadline_ > 0 ? fixed_step_deadline_
                                            : std::max(kMinStepDeadline, kMedians * *middle);
}

Beat SectionClock::beat() const {
  return {.step = step_.load(std::memory_order_relaxed),
          .progress = progress_.load(std::memory_order_relaxed),
          .section = section_.load(std::memory_order_relaxed)};
}

double SectionClock::deadline_of(Section section) const {
  switch (section) {
    case Section::kSetup:
    case Section::kValidation:
      return setup_deadline_;
    case Section::kLoad:
    case Section::kCheckpoint:
      return checkpoint_deadline_;
    default:
      return step_deadline_;
  }
}

std::optional<SectionClock::Stall> SectionClock::find_stall(double now,
                                                            std::uint64_t progress_of_others) {
  const Beat at = beat();
  const bool others_moved = !is_of_a_step(at.section) && progress_of_others != seen_of_others_;
  if (moved_at_ < 0 || at.progress != seen_progress_ || others_moved) {
    seen_progress_ = at.progress;
    seen_of_others_ = progress_of_others;
    moved_at_ = now;
    return std::nullopt;
  }
  const double deadline = deadline_of(at.section);
  if (now - moved_at_ <= deadline) return std::nullopt;
  return Stall{.at = at, .seconds = now - moved_at_, .deadline_seconds = deadline};
}

}  // namespace tributary::mesh
