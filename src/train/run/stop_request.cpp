#include "train/run/stop_request.h"

#include <array>
#include <csignal>
#include <string_view>
#include <unistd.h>

namespace tributary::train {
namespace {

constexpr std::array<int, 2> kSignals{SIGTERM, SIGINT};

// A signal handler can reach nothing but globals.
volatile std::sig_atomic_t stop_asked = 0;
std::array<struct sigaction, 2> former_handlers;

void on_signal(int signal) {
  if (stop_asked != 0) _exit(128 + signal);
  stop_asked = 1;
  constexpr std::string_view kNote =
      "\nstopping after this step and a checkpoint; a second signal ends at once\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kNote.data(), kNote.size());
}

}  // namespace

StopRequest::StopRequest() {
  stop_asked = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i)
    sigaction(kSignals[i], &action, &former_handlers[i]);
}

StopRequest::~StopRequest() {
  for (std::size_t i = 0; i < kSignals.size(); ++i)
    sigaction(kSignals[i], &former_handlers[i], nullptr);
}

bool StopRequest::asked() const { return stop_asked != 0; }

}  // namespace tributary::train
