// One rank of a job that does nothing but say where it is; health_test.py hurts it.
//
// health_probe [steps=N] [bootstrap=S] [run=DIR] [stick=RANK:STEP] [fail=RANK:STEP:CODE:TEXT]...
// health_probe serve: a store of its own, as torchrun has one; prints the port.

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "core/error.h"
#include "core/log.h"
#include "mesh/health.h"
#include "mesh/launch.h"
#include "mesh/store.h"

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

void run_rank(const Orders& orders) {
  const Launch launch = read_launch();
  const auto store = connect_store(launch, orders.bootstrap_seconds);
  Health health(launch, *store,
                {.heartbeat_seconds = 0.1,
                 .lost_after_seconds = 2,
                 .setup_deadline_seconds = 4,
                 .run_directory = orders.run});
  std::cout << "ready" << std::endl;
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
