#pragma once

#include "core/exit_code.h"

namespace tributary {

/// Whether another start may end better: what a launcher restarts. 128 + n: killed by signal n.
[[nodiscard]] constexpr bool is_worth_a_restart(int code) {
  return code == static_cast<int>(ExitCode::kResource) ||
         code == static_cast<int>(ExitCode::kPeerLost) ||
         code == static_cast<int>(ExitCode::kHang) || code == static_cast<int>(ExitCode::kFenced) ||
         code == static_cast<int>(ExitCode::kBug) || code > 128;
}

/// Which of several failures of one job explains the others: the one with the lowest number. An own
/// fault or input explains a missing resource, that a hang, that a lost peer.
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
      return code > 128 ? 1 : 0;  // a signal may be the echo of an own fault
  }
}

}  // namespace tributary
