// One rank of a job that does nothing but say where it is; health_test.py hurts it.
//
// health_probe [steps=N] [bootstrap=S] [run=DIR] [stick=RANK:STEP] [fail=RANK:STEP:CODE:TEXT]...
//              [stop=RANK:start|met]
// health_probe save=SECONDS:RANK: only rank RANK works at a save, in pieces, and the others wait
// for it. health_probe serve: serves a store, as torchrun does, and prints its port.

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "core/error.h"
#include "core/log.h"
#include "core/stopwatch.h"
#include "mesh/health/health.h"
#include "mesh/health/link.h"
#include "mesh/launch/launch.h"
#include "mesh/launch/store.h"

namespace tributary::mesh {
namespace {

using namespace std::chrono_literals;

struct Orders {
  std::int64_t steps = 1'000'000;
  double bootstrap_seconds = 20;
  std::string run;
  int stuck_rank = -1;
  std::int64_t stuck_step = 0;
  struct Fail {
    int rank = -1;
    std::int64_t step = 0;
    int code = 0;
    std::string text;
  };
  std::vector<Fail> fails;
  int stopped_rank = -1;
  std::string stopped_at;  // `start`: before it meets the others; `met`: after
  double save_seconds = 0;
  int saving_rank = -1;
};

Orders read_orders(int argc, char** argv) {
  Orders orders;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t equal = word.find('=');
    const std::string name = word.substr(0, equal);
    std::istringstream value(word.substr(equal + 1));
    char colon = 0;
    if (name == "steps") value >> orders.steps;
    if (name == "bootstrap") value >> orders.bootstrap_seconds;
    if (name == "run") value >> orders.run;
    if (name == "stick") value >> orders.stuck_rank >> colon >> orders.stuck_step;
    if (name == "stop") value >> orders.stopped_rank >> colon >> orders.stopped_at;
    if (name == "save") value >> orders.save_seconds >> colon >> orders.saving_rank;
    if (name == "fail") {
      Orders::Fail fail;
      value >> fail.rank >> colon >> fail.step >> colon >> fail.code >> colon;
      std::getline(value, fail.text);
      orders.fails.push_back(fail);
    }
  }
  return orders;
}

int serve_store() {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  std::cout << store->getPort() << std::endl;
  for (;;) std::this_thread::sleep_for(1h);
}

void stop_if(const Orders& orders, const Launch& launch, const std::string& place) {
  if (orders.stopped_rank == launch.rank && orders.stopped_at == place) std::raise(SIGSTOP);
}

/// A save that one rank writes: the others wait for it, as in a collective.
void save(const Orders& orders, const Launch& launch, Health& health, c10d::Store& store) {
  health.enter(Section::kCheckpoint, 1);
  const double end = now_seconds() + orders.save_seconds;
  if (launch.rank == orders.saving_rank) {
    for (; now_seconds() < end; std::this_thread::sleep_for(100ms)) health.progress();
    store.set("saved", "1");
  }
  store.wait({"saved"});
}

void run_rank(const Orders& orders) {
  const Launch launch = read_launch();
  stop_if(orders, launch, "start");
  const auto store =
      connect_store(launch, {.timeout_seconds = orders.bootstrap_seconds, .lost_after_seconds = 2});
  stop_if(orders, launch, "met");
  Health health(launch, *store,
                {.heartbeat_seconds = 0.1,
                 .lost_after_seconds = 2,
                 .setup_deadline_seconds = 4,
                 .checkpoint_deadline_seconds = 1.5,
                 .run_directory = orders.run});
  std::cout << "ready" << std::endl;
  if (orders.save_seconds > 0) save(orders, launch, health, *store);
  for (std::int64_t step = 1; step <= orders.steps; ++step) {
    health.enter(Section::kForward, step);
    std::this_thread::sleep_for(5ms);
    health.enter(Section::kBackward, step);
    if (launch.rank == orders.stuck_rank && step == orders.stuck_step)
      for (;;) std::this_thread::sleep_for(1h);
    for (const Orders::Fail& fail : orders.fails)
      if (launch.rank == fail.rank && step == fail.step)
        health.report_failure(fail.text, static_cast<ExitCode>(fail.code));
    std::this_thread::sleep_for(5ms);
  }
  health.finish();
  std::cout << "finished" << std::endl;
}

}  // namespace
}  // namespace tributary::mesh

int main(int argc, char** argv) {
  try {
    if (argc > 1 && std::string(argv[1]) == "serve") return tributary::mesh::serve_store();
    tributary::mesh::run_rank(tributary::mesh::read_orders(argc, argv));
    return 0;
  } catch (const tributary::Error& error) {
    tributary::log_note(error.what());
    std::quick_exit(static_cast<int>(error.exit_code()));  // as the program does
  }
}
