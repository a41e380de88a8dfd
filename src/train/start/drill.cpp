#include "train/start/drill.h"

#include <array>
#include <chrono>
#include <csignal>
#include <thread>
#include <unistd.h>

#include "core/error.h"
#include "core/log.h"

namespace tributary::train {
namespace {

using config::DrillFault;
using config::DrillPlace;

const char* describe(DrillFault fault) {
  constexpr std::array<const char*, 4> kWords{"is left alone", "is killed", "is stopped", "fails"};
  return kWords.at(static_cast<std::size_t>(fault));
}

const char* describe(DrillPlace place) {
  constexpr std::array<const char*, 6> kWords{
      "in forward",       "in backward",      "in a collective of backward",
      "before an action", "in the optimizer", "in the checkpoint"};
  return kWords.at(static_cast<std::size_t>(place));
}

/// The section at whose begin the drill strikes; the writer of a checkpoint tells of its own.
mesh::Section section_of(DrillPlace place) {
  constexpr std::array<mesh::Section, 6> kSections{
      mesh::Section::kForward, mesh::Section::kBackward,  mesh::Section::kBackward,
      mesh::Section::kForward, mesh::Section::kOptimizer, mesh::Section::kCheckpoint};
  return kSections.at(static_cast<std::size_t>(place));
}

}  // namespace

Drill::Drill(const config::DrillSection& options, const mesh::Launch& launch)
    : options_(options),
      place_(str(describe(options.section), " of step ", options.step)),
      is_armed_(launch.rank == options.rank && launch.attempt == "0") {
  TRIB_REQUIRE(options.rank < launch.world,
               .what = "train: fault drill for a rank that is not there", .where = "drill.rank",
               .found = str(options.rank),
               .expected = str("0 to ", launch.world - 1, " in a world of ", launch.world));
  TRIB_REQUIRE(options.section != DrillPlace::kCollective || launch.world > 1,
               .what = "train: fault drill in a collective of one rank", .where = "drill.section",
               .found = "collective", .expected = "at least 2 ranks");
  announcement_ = launch.attempt == "0"
                      ? str("fault drill: rank ", options.rank, " of ", launch.world, " ",
                            describe(options.fault), " ", place_, " (drill.fault)")
                      : str("fault drill: over, this is restart ", launch.attempt);
}

void Drill::enter(mesh::Section section, std::int64_t step) {
  if (!is_armed_ || step != options_.step || section != section_of(options_.section) ||
      options_.section == DrillPlace::kCheckpoint || options_.section == DrillPlace::kAction)
    return;
  rest();
  if (options_.section == DrillPlace::kCollective)
    waits_for_collective_ = true;
  else
    strike();
}

void Drill::on_action(std::int64_t step, std::int64_t action) {
  if (!is_armed_ || options_.section != DrillPlace::kAction || step != options_.step ||
      action != options_.action)
    return;
  rest();
  strike();
}

void Drill::on_collective() {
  if (waits_for_collective_) strike();
}

void Drill::on_written(std::int64_t step) {
  if (!is_armed_ || step != options_.step || options_.section != DrillPlace::kCheckpoint) return;
  rest();
  strike();
}

void Drill::rest() const {
  std::this_thread::sleep_for(std::chrono::duration<double>(options_.after_seconds));
}

void Drill::strike() {
  if (!is_armed_.exchange(false)) return;
  waits_for_collective_ = false;
  log_note(str("fault drill: rank ", options_.rank, " ", describe(options_.fault), " ", place_));
  switch (options_.fault) {
    case DrillFault::kNone:
      return;
    case DrillFault::kKill:
      (void)kill(getpid(), SIGKILL);
      return;
    case DrillFault::kStop:
      (void)kill(getpid(), SIGSTOP);
      return;
    case DrillFault::kFail:
      TRIB_RAISE(Fault::kResource, .what = "train: fault drill",
                 .where = str("rank ", options_.rank, " ", place_), .found = "drill.fault: fail",
                 .fix = "set drill.fault to none");
  }
}

}  // namespace tributary::train
