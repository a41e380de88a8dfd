#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/exit_code.h"
#include "mesh/health/health.h"

namespace tributary::mesh {

/// What a rank says of itself every heartbeat.
struct Beat {
  std::int64_t step = 0;
  std::uint64_t progress = 0;
  Section section = Section::kSetup;
};

/// A failure that the controller was told of, or saw itself.
struct Failure {
  int rank = 0;  // that failed
  ExitCode code = ExitCode::kBug;
  std::string text = {};    // the line to print
  bool is_seen = false;     // by the controller: a closed connection, missing heartbeats
  double at_seconds = 0.0;  // steady clock of the controller
};

/// How long the controller waits for a better explanation than the first.
inline constexpr double kCollectSeconds = 0.2;

/// Picks the failure that explains the others: by cause_order, then what the controller saw itself
/// (what ranks say of lost peers is an echo), then the first.
///
/// errors: Fault::kBug when there is none
[[nodiscard]] const Failure& choose_root_cause(std::span<const Failure> failures);

/// `5.1 s`
[[nodiscard]] std::string in_seconds(double seconds);

/// `resource error: mesh: rank lost: rank 5 on node-b, last heartbeat 5.1 s ago in section backward
/// of step 7, <why>`
[[nodiscard]] std::string describe_lost(int rank, const std::string& host, double silent_seconds,
                                        const Beat& last, const std::string& why);

}  // namespace tributary::mesh
