#include "mesh/launch/store.h"

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <unistd.h>
#include <utility>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "core/error.h"
#include "core/log.h"
#include "core/stopwatch.h"

namespace tributary::mesh {
namespace {

using StorePointer = c10::intrusive_ptr<c10d::Store>;

constexpr const char* kVerdict = "verdict";  // key: all have met, or the ranks that are missing
constexpr const char* kMet = "met";
constexpr double kTellSeconds = 5;  // max time that rank 0 stays for others to read it

/// What the thread that meets the other ranks tells the one that waits for it.
class Answers {
 public:
  /// The store has answered just now.
  void note() { seconds_.store(watch_.seconds()); }
  [[nodiscard]] bool any() const { return seconds_.load() >= 0; }
  /// Seconds since the last one.
  [[nodiscard]] double silence() const { return watch_.seconds() - seconds_.load(); }

 private:
  Stopwatch watch_;
  std::atomic<double> seconds_ = -1;
};

/// `node-a:29500, rank 3 of 8`
std::string place_of(const Launch& launch) {
  return str(launch.master_address, ":", launch.master_port, ", rank ", launch.rank, " of ",
             launch.world);
}

/// c10's messages carry a stack below the first line.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

StorePointer open_tcp_store(const Launch& launch, double timeout_seconds) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(launch.master_port);
  options.isServer = launch.rank == 0 && !launch.store_is_served;
  options.waitWorkers = false;  // meet() waits, and says who is missing
  options.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(timeout_seconds * 1e3));
  if (options.isServer && launch.listen_descriptor >= 0)
    options.masterListenFd = launch.listen_descriptor;
  try {
    return c10::make_intrusive<c10d::TCPStore>(launch.master_address, options);
  } catch (const std::exception& refused) {
    TRIB_RAISE(
        Fault::kResource,
        .what = options.isServer ? "mesh: store cannot be served" : "mesh: store is not reached",
        .where = place_of(launch), .found = first_line(refused),
        .expected = options.isServer ? "a free port of this machine"
                                     : str(launch.store_is_served ? launch.launcher : "rank 0",
                                           " serves it within ", timeout_seconds, " s"),
        .fix = "check MASTER_ADDR and MASTER_PORT, and the log of rank 0");
  }
}

std::string arrival_of(int rank) { return str("arrived/", rank); }

[[noreturn]] void raise_missing(const Launch& launch, const std::string& missing,
                                double timeout_seconds) {
  TRIB_RAISE(Fault::kResource, .what = "mesh: ranks are missing at the start",
             .where = str(launch.master_address, ":", launch.master_port), .found = missing,
             .expected = str("all ", launch.world, " ranks within ", timeout_seconds,
                             " s (parallel.bootstrap_timeout_seconds)"),
             .fix = "see the logs of the missing ranks");
}

/// `rank 2, rank 5 of 8 did not arrive`; empty when all have
std::string list_missing(c10d::Store& store, int world) {
  constexpr int kMaxNamed = 20;
  std::string names;
  int count = 0;
  for (int rank = 0; rank < world; ++rank) {
    if (store.check({arrival_of(rank)})) continue;
    if (++count <= kMaxNamed) names += str(names.empty() ? "" : ", ", "rank ", rank);
  }
  if (count == 0) return "";
  if (count > kMaxNamed) names += str(" and ", count - kMaxNamed, " more");
  return str(names, " of ", world, " did not arrive");
}

/// Keeps rank 0, whose end ends the store, until all who have arrived know who is missing.
void stay_until_told(c10d::Store& store, const Launch& launch, Answers& answers) {
  using namespace std::chrono_literals;
  const Stopwatch waited;
  store.add("told", 1);
  while (launch.rank == 0 && waited.seconds() < kTellSeconds &&
         store.add("told", 0) < store.add("arrived", 0)) {
    answers.note();
    std::this_thread::sleep_for(20ms);
  }
}

/// Warns of ranks that are late: once for all, by the lowest rank that has arrived.
void note_missing(c10d::Store& store, const Launch& launch, const StartPatience& patience) {
  for (int rank = 0; rank < launch.rank; ++rank)
    if (store.check({arrival_of(rank)})) return;
  log_warning(str("mesh: still waiting at the start: ", list_missing(store, launch.world),
                  " within ", patience.lost_after_seconds, " s; the others leave after ",
                  patience.timeout_seconds, " s (parallel.bootstrap_timeout_seconds)"));
}

/// Writes the verdict, unless another rank has written one before.
void decide(c10d::Store& store, const std::string& verdict) {
  store.compareSet(kVerdict, /*currentValue=*/std::string(), verdict);
}

/// Waits until every rank has arrived.
void meet(c10d::Store& store, const Launch& launch, const StartPatience& patience,
          Answers& answers) {
  using namespace std::chrono_literals;
  if (store.add(arrival_of(launch.rank), 1) != 1)
    TRIB_RAISE(Fault::kResource, .what = "mesh: two processes have the same rank",
               .where = str(launch.launcher, " on ", host_name()),
               .found = str("rank ", launch.rank, " has arrived before"),
               .expected = "each rank once",
               .fix = "check the launch variables, and that no older job uses this port");
  if (store.add("arrived", 1) == launch.world) decide(store, kMet);
  const Stopwatch waited;
  bool is_noted = false;
  // The pause grows: a thousand ranks that ask every 20 ms would keep the store busy.
  for (auto pause = 20ms; !store.check({kVerdict}); pause = std::min(2 * pause, 500ms)) {
    answers.note();
    if (waited.seconds() > patience.timeout_seconds) {
      const std::string missing = list_missing(store, launch.world);
      decide(store, missing.empty() ? kMet : missing);
    }
    if (!is_noted && waited.seconds() > patience.lost_after_seconds) {
      note_missing(store, launch, patience);
      is_noted = true;
    }
    std::this_thread::sleep_for(pause);
  }
  const std::string verdict = store.get_to_str(kVerdict);
  if (verdict == kMet) return;
  stay_until_told(store, launch, answers);
  raise_missing(launch, verdict, patience.timeout_seconds);
}

StorePointer open_and_meet(const Launch& launch, const std::string& prefix,
                           const StartPatience& patience, Answers& answers) {
  const StorePointer store = c10::make_intrusive<c10d::PrefixStore>(
      prefix, open_tcp_store(launch, patience.timeout_seconds));
  answers.note();
  try {
    meet(*store, launch, patience, answers);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& lost) {
    TRIB_RAISE(Fault::kResource, .what = "mesh: store was lost at the start",
               .where = place_of(launch), .found = first_line(lost),
               .fix = "see the log of rank 0");
  }
  return store;
}

/// Who serves the store, for a message.
std::string server_of(const Launch& launch) {
  return launch.store_is_served ? launch.launcher : "rank 0";
}

/// Runs `work` in a thread of its own: a call of TCPStore never returns when a server accepts the
/// connection and does not answer. Then the thread is left behind, since the process ends soon.
template <class Work>
auto in_own_thread(Work work) {
  std::packaged_task task(std::move(work));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  return result;
}

}  // namespace

StorePointer connect_store(const Launch& launch, const StartPatience& patience) {
  using namespace std::chrono_literals;
  const std::string prefix = "trib/attempt_" + launch.attempt;
  if (launch.world == 1)
    return c10::make_intrusive<c10d::PrefixStore>(prefix, c10::make_intrusive<c10d::HashStore>());
  const auto answers = std::make_shared<Answers>();  // with the thread that may be left behind
  std::future<StorePointer> result = in_own_thread(std::function<StorePointer()>(
      [=] { return open_and_meet(launch, prefix, patience, *answers); }));
  constexpr double kSlackSeconds = 5;  // for the store's own error, which says more
  const Stopwatch waited;
  bool is_noted = false;
  double before = 0;
  while (result.wait_for(50ms) != std::future_status::ready) {
    // While this process was stopped, the thread that asks did not run either.
    if (std::exchange(before, waited.seconds()) + 1 < waited.seconds() && answers->any())
      answers->note();
    const bool is_lost = answers->any() && answers->silence() > patience.lost_after_seconds;
    if (is_lost)
      TRIB_RAISE(Fault::kResource, .what = "mesh: store does not answer any more",
                 .where = place_of(launch),
                 .found = str("nothing from ", server_of(launch), " for ",
                              patience.lost_after_seconds, " s (parallel.lost_after_seconds)"),
                 .fix = str("see the log of ", server_of(launch)), .exit = ExitCode::kPeerLost);
    if (answers->any()) continue;
    if (waited.seconds() > patience.timeout_seconds + kSlackSeconds)
      TRIB_RAISE(Fault::kResource, .what = "mesh: store does not answer", .where = place_of(launch),
                 .expected = str("an answer within ", patience.timeout_seconds, " s"),
                 .fix = "check that MASTER_PORT is that of this job");
    if (!is_noted && waited.seconds() > patience.lost_after_seconds) {
      log_warning(str("mesh: still waiting at the start: ", server_of(launch),
                      " does not serve the store at ", launch.master_address, ":",
                      launch.master_port, " within ", patience.lost_after_seconds, " s"));
      is_noted = true;
    }
  }
  return result.get();
}

std::string await_key(c10d::Store& store, const std::string& key, int writer, double seconds) {
  const auto shared = StorePointer::unsafe_reclaim_from_nonowning(&store);
  std::future<std::string> value = in_own_thread(
      std::function<std::string()>([shared, key] { return shared->get_to_str(key); }));
  std::string found = str("nothing for ", seconds, " s (parallel.lost_after_seconds)");
  try {
    if (value.wait_for(std::chrono::duration<double>(seconds)) == std::future_status::ready)
      return value.get();
  } catch (const std::exception& lost) {
    found = first_line(lost);
  }
  TRIB_RAISE(Fault::kResource,
             .what = str("mesh: rank lost: rank ", writer, " has met the others and says no more"),
             .where = str("key ", key), .found = found, .fix = str("see the log of rank ", writer),
             .exit = ExitCode::kPeerLost);
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown-host";
}

}  // namespace tributary::mesh
