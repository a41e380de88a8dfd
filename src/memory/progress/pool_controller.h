#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "memory/protocol/event.h"
#include "memory/protocol/member.h"

namespace tributary::memory {

struct PoolControllerOptions {
  std::string directory = {};       // of the job, pool_directory.h
  std::string bind = "127.0.0.1";   // the interface to listen at
  bool allow_public = false;        // whether it may be one of the public network
  std::uint32_t consumers = 1;      // reader processes, by index
  std::uint64_t first_step = 0;     // the first one that is planned
  std::uint64_t window = 2;         // steps that may be made at a time
  std::uint64_t page_bytes = 0;     // of every producer's segment, a multiple of 4 KiB
  std::uint64_t reserve_pages = 0;  // pages of the largest object
  Timers timers = {};               // of all members
};

/// The pool as its controller sees it.
struct PoolCounts {
  std::uint64_t producers = 0;     // that are in now
  std::uint64_t joined = 0;        // producers that came in since the start
  std::uint64_t left = 0;          // producers that said BYE
  std::uint64_t fenced = 0;        // producers whose process ended, or that were silent
  std::uint64_t made = 0;          // objects, by all that were ever in
  double producer_seconds = 0;     // that producers were in, added up over them
  double busy_seconds = 0;         // of these: they made objects
  double blocked_seconds = 0;      // they had work, and no room to put the next object
  std::uint64_t objects_open = 0;  // of uncommitted steps, not made yet
  std::uint64_t objects_made = 0;  // of uncommitted steps, sealed
  std::uint64_t unassigned = 0;    // of the open ones: no producer has room for them
  std::uint64_t pages_used = 0;    // by sealed objects
  std::uint64_t pages_total = 0;   // of all producers
  std::uint64_t refused = 0;       // messages of members that break a rule, or are fenced
  std::map<std::string, std::uint64_t> refusals = {};  // of connections, by code
  std::uint64_t reopened = 0;  // links that the network broke, and members opened again
  std::string stopped = {};    // why the pool makes nothing any more; empty: it goes on
};

/// The controller of a pool at work, on a thread of its own, which the destructor ends within a
/// second. Members find it by the job's directory.
///
/// Plans are functions of the data, so that they are on no disk: a job that starts again plans the
/// same steps. Whatever members do, no call fails or waits for them; a controller that has stopped
/// says so in PoolCounts::stopped, and readers then get nothing.
class PoolController {
 public:
  /// errors: Fault::kInput and Fault::kResource of listen_on(), write_pool_key();
  ///         Fault::kInput when a count is 0 or the page no multiple of 4 KiB
  explicit PoolController(const PoolControllerOptions& options);
  /// Without finish(), members take it for a controller that died.
  ~PoolController();
  PoolController(const PoolController&) = delete;
  PoolController& operator=(const PoolController&) = delete;

  /// Says what a step is made of; steps come in order, from any thread.
  ///
  /// errors: Fault::kInput when the step has more objects than a message holds: 2 million
  void plan(StepPlanned step);
  /// The oldest uncommitted step: all readers have finished the earlier ones.
  [[nodiscard]] std::uint64_t low() const;
  /// The objects of uncommitted steps that are sealed, ascending.
  [[nodiscard]] std::vector<Key> made() const;
  /// The run is over: nobody joins any more, and members end in peace.
  void finish();
  [[nodiscard]] PoolCounts counts() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tributary::memory
