#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <thread>

#include "core/handle.h"
#include "memory/progress/pool_directory.h"

namespace tributary::memory {

/// A network between the members of a job and its controller: passes on what comes, on a thread of
/// its own, and fails as it is told to.
class Relay {
 public:
  explicit Relay(const std::string& endpoint);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// Members that come from now on go through the relay.
  void stand_before(const std::string& directory);
  /// Resets all connections, as a firewall does that forgets them.
  void reset() { resets_ = true; }
  /// Nothing passes, and nobody is let in; what is sent meanwhile comes later.
  void hold(bool holds) { holds_ = holds; }
  /// Changes one bit of what is passed on next.
  void flip_a_bit() { flips_ = true; }
  [[nodiscard]] std::size_t connections() const { return connections_; }

 private:
  void work(const std::stop_token& stop);

  std::string endpoint_, own_endpoint_;
  Descriptor listening_;
  std::atomic<bool> resets_ = false, holds_ = false, flips_ = false;
  std::atomic<std::size_t> connections_ = 0;  // that were let in
  std::jthread thread_;
};

}  // namespace tributary::memory
