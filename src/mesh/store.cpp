#include "mesh/store.h"

#include <array>
#include <chrono>
#include <future>
#include <thread>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "core/error.h"
#include "core/stopwatch.h"

namespace tributary::mesh {
namespace {

using StorePointer = c10::intrusive_ptr<c10d::Store>;

constexpr const char* kVerdict = "verdict";  // key: all have met, or the ranks that are missing
constexpr const char* kMet = "met";
constexpr double kTellSeconds = 5;  // the most that rank 0 stays for others to read it

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
  constexpr int kMostNamed = 20;
  std::string names;
  int count = 0;
  for (int rank = 0; rank < world; ++rank) {
    if (store.check({arrival_of(rank)})) continue;
    if (++count <= kMostNamed) names += str(names.empty() ? "" : ", ", "rank ", rank);
  }
  if (count == 0) return "";
  if (count > kMostNamed) names += str(" and ", count - kMostNamed, " more");
  return str(names, " of ", world, " did not arrive");
}

/// The store goes with rank 0: it stays until all who have arrived know who is missing.
void stay_until_told(c10d::Store& store, const Launch& launch) {
  using namespace std::chrono_literals;
  const Stopwatch waited;
  store.add("told", 1);
  while (launch.rank == 0 && waited.seconds() < kTellSeconds &&
         store.add("told", 0) < store.add("arrived", 0))
    std::this_thread::sleep_for(20ms);
}

/// The first verdict stands. Returns the one that does.
std::string decide(c10d::Store& store, const std::string& verdict) {
  return store.compareSet(kVerdict, /*currentValue=*/std::string(), verdict);
}

/// One request that the store answers when there is a verdict: a thousand ranks that ask again and
/// again would keep it from all else.
std::string await_verdict(c10d::Store& store, const Launch& launch, double timeout_seconds) {
  try {
    store.wait({kVerdict},
               std::chrono::milliseconds(static_cast<std::int64_t>(timeout_seconds * 1e3)));
  } catch (const std::exception&) {  // the time is over, or else the next request fails as well
    const std::string missing = list_missing(store, launch.world);
    return decide(store, missing.empty() ? kMet : missing);
  }
  return store.get_to_str(kVerdict);
}

/// Waits until every rank has arrived.
void meet(c10d::Store& store, const Launch& launch, double timeout_seconds) {
  if (store.add(arrival_of(launch.rank), 1) != 1)
    TRIB_RAISE(Fault::kResource, .what = "mesh: two processes have the same rank",
               .where = str(launch.launcher, " on ", host_name()),
               .found = str("rank ", launch.rank, " has arrived before"),
               .expected = "each rank once",
               .fix = "check the launch variables, and that no older job uses this port");
  if (store.add("arrived", 1) == launch.world) (void)decide(store, kMet);
  const std::string verdict = await_verdict(store, launch, timeout_seconds);
  if (verdict == kMet) return;
  stay_until_told(store, launch);
  raise_missing(launch, verdict, timeout_seconds);
}

StorePointer open_and_meet(const Launch& launch, const std::string& prefix,
                           double timeout_seconds) {
  const StorePointer store =
      c10::make_intrusive<c10d::PrefixStore>(prefix, open_tcp_store(launch, timeout_seconds));
  try {
    meet(*store, launch, timeout_seconds);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& lost) {
    TRIB_RAISE(Fault::kResource, .what = "mesh: store was lost at the start",
               .where = place_of(launch), .found = first_line(lost),
               .fix = "see the log of rank 0");
  }
  return store;
}

}  // namespace

StorePointer connect_store(const Launch& launch, double timeout_seconds) {
  const std::string prefix = "trib/attempt_" + launch.attempt;
  if (launch.world == 1)
    return c10::make_intrusive<c10d::PrefixStore>(prefix, c10::make_intrusive<c10d::HashStore>());
  // Who accepts a connection and never answers holds the constructor of TCPStore without end. So it
  // works in a thread of its own, which is left behind then: the process is about to leave.
  std::packaged_task<StorePointer()> work(
      [=] { return open_and_meet(launch, prefix, timeout_seconds); });
  std::future<StorePointer> result = work.get_future();
  std::thread(std::move(work)).detach();
  constexpr double kSlackSeconds = kTellSeconds + 2;  // both parts keep the deadline, one by one
  if (result.wait_for(std::chrono::duration<double>(2 * timeout_seconds + kSlackSeconds)) !=
      std::future_status::ready)
    TRIB_RAISE(Fault::kResource, .what = "mesh: store does not answer", .where = place_of(launch),
               .expected = str("an answer within ", timeout_seconds, " s"),
               .fix = "check that MASTER_PORT is that of this job");
  return result.get();
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown-host";
}

}  // namespace tributary::mesh
