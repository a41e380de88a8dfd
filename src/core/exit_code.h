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

}  // namespace tributary
