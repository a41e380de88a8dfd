#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "core/result.h"
#include "memory/protocol/member.h"
#include "memory/transport/socket/handshake.h"
#include "memory/transport/socket/job_key.h"

namespace tributary::memory {

// Numbers of processes in a pool: the controller, the consumers by their index, producers, which
// draw one of theirs, and lenders: each consumer may be one too, a producer of what it alone has.
inline constexpr std::uint16_t kControllerProcess = 0, kFirstConsumer = 1;
inline constexpr std::uint32_t kMaxProducers = 255, kMaxConsumers = 30'000;
// The controller and the consumers are the only ones of their job; the next job has another id.
inline constexpr std::uint32_t kFirstIncarnation = 1, kFirstEpoch = 1;

/// The number by which a consumer lends objects.
[[nodiscard]] constexpr std::uint16_t lender_process(std::uint32_t consumers,
                                                     std::uint32_t consumer) {
  return static_cast<std::uint16_t>(kFirstConsumer + consumers + kMaxProducers + consumer);
}

/// What the members of a job must have in common, and where they find its controller.
struct PoolJob {
  std::array<std::uint8_t, 16> id{};  // drawn by the controller; no secret
  std::uint32_t consumers = 1;
  std::uint64_t first_step = 0;     // the first one that is planned
  std::uint64_t window = 2;         // steps that may be made at a time
  std::uint64_t page_bytes = 0;     // of every producer's segment
  std::uint64_t reserve_pages = 0;  // of the largest object
  Timers timers = {};
  std::string endpoint = {};     // TCP, as text
  std::string unix_socket = {};  // a path on the controller's host; empty: none

  [[nodiscard]] std::uint32_t first_producer() const { return kFirstConsumer + consumers; }
  [[nodiscard]] std::uint32_t first_lender() const { return lender_process(consumers, 0); }
  [[nodiscard]] std::uint32_t world() const { return first_lender() + consumers; }
  /// What a process says of itself when it connects.
  [[nodiscard]] Membership member(Role role, std::uint16_t process,
                                  std::uint32_t incarnation) const;
};

// The directory of a job, 0700 and of this user, holds `key` (32 random bytes, 0600) and, as long
// as the controller listens, `controller.json`. Sockets lie below it in a directory for each host,
// since hosts may share the file system.

/// Makes the directory where there is none, and removes the address of an earlier controller.
///
/// errors: Fault::kInput when the directory is open to others or of another user; Fault::kResource
///         when it cannot be made
void make_pool_directory(const std::string& directory);
/// Draws and writes a new key; makes the directory where there is none.
///
/// errors: as make_pool_directory; Fault::kResource when it cannot be written
[[nodiscard]] JobKey write_pool_key(const std::string& directory);
/// Writes `controller.json`, whole, in place of an earlier controller's.
void publish_controller(const std::string& directory, const PoolJob& job);
/// Removes `controller.json` if it is still that of this job.
void withdraw_controller(const std::string& directory, const PoolJob& job) noexcept;

/// A job that can be joined, and the key that proves who belongs to it.
struct FoundPool {
  PoolJob job;
  JobKey key;
};
/// Refused (`none`) while no controller is there; other codes name what is wrong with the files.
[[nodiscard]] Result<FoundPool> find_pool(const std::string& directory);

/// Tries to join the job of a directory until `attempt` does, each time up to the deadline that it
/// is given, or `patience` has passed.
///
/// errors: ExitCode::kPeerLost with the last refusal; Fault::kInput where the key of the job or the
///         capacity of this process is wrong
void join_pool(const std::string& directory, Nanoseconds patience,
               const std::function<Result<bool>(const FoundPool&, TimePoint deadline)>& attempt);

/// Where the sockets of this host lie.
[[nodiscard]] std::string socket_directory_of(const std::string& directory);

}  // namespace tributary::memory
