#pragma once

namespace tributary {

/// What the process tells its launcher; a launcher restarts on 5 (after a pause), 10, 11, 12, 70.
enum class ExitCode {
  kDone = 0,
  kInput = 2,              // configuration or command line
  kDataLimit = 3,          // too many bad samples
  kCheckpointRefused = 4,  // corrupt or incompatible
  kResource = 5,           // disk, memory, descriptors
  kPeerLost = 10,
  kHang = 11,
  kFenced = 12,
  kNonFinite = 13,
  kCrashLoop = 14,
  kTerminated = 15,  // ended on SIGTERM or Ctrl-C after a committed checkpoint
  kBug = 70,
};

/// Whether a launcher restarts a job that ended with `code`. 128 + n means killed by signal n.
[[nodiscard]] constexpr bool is_worth_a_restart(int code) {
  return code == static_cast<int>(ExitCode::kResource) ||
         code == static_cast<int>(ExitCode::kPeerLost) ||
         code == static_cast<int>(ExitCode::kHang) || code == static_cast<int>(ExitCode::kFenced) ||
         code == static_cast<int>(ExitCode::kBug) || code > 128;
}

/// Orders the failures of one job: the one with the lowest number explains the others. A bug or bad
/// input explains a missing resource, which explains a hang, which explains a lost peer.
[[nodiscard]] constexpr int cause_order(int code) {
  switch (code) {
    case static_cast<int>(ExitCode::kResource):
      return 2;
    case static_cast<int>(ExitCode::kHang):
      return 3;
    case static_cast<int>(ExitCode::kPeerLost):
    case static_cast<int>(ExitCode::kFenced):
      return 4;
    default:
      return code > 128 ? 1 : 0;  // a bug may end in a signal
  }
}

}  // namespace tributary
