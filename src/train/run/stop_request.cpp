#include "train/run/stop_request.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <poll.h>
#include <string_view>
#include <unistd.h>

#include "core/text.h"

namespace tributary::train {
namespace {

constexpr std::array<int, 3> kSignals{SIGTERM, SIGINT, SIGALRM};

// A signal handler can reach nothing but globals.
volatile std::sig_atomic_t stop_asked = 0;
volatile std::sig_atomic_t grace_seconds = 0;
std::array<struct sigaction, kSignals.size()> former_handlers;
std::array<char, 200> note;  // what the first signal prints; written before the handlers are set
std::size_t note_length = 0;

/// Never blocks, even where nobody reads: what follows the note must happen.
void write_note(std::string_view text) {
  pollfd errors{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (poll(&errors, 1, /*timeout=*/0) != 1) return;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

void on_signal(int signal) {
  if (signal == SIGALRM) {
    write_note(
        "\nthe time that SIGTERM leaves is over (stability.stop_grace_seconds): ending at "
        "once; a save that was under way is lost, checkpoints before it stay\n");
    _exit(128 + SIGTERM);
  }
  if (stop_asked != 0) _exit(128 + signal);
  stop_asked = 1;
  if (signal == SIGTERM) alarm(static_cast<unsigned>(grace_seconds));
  write_note({note.data(), note_length});
}

}  // namespace

StopRequest::StopRequest(std::chrono::seconds grace, std::string_view last) {
  stop_asked = 0;
  const std::string text =
      str("\nstopping after ", last, "; a second signal ends at once\n").substr(0, note.size());
  std::ranges::copy(text, note.begin());
  note_length = text.size();
  grace_seconds = static_cast<int>(grace.count());
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i)
    sigaction(kSignals[i], &action, &former_handlers[i]);
}

StopRequest::~StopRequest() {
  alarm(0);
  for (std::size_t i = 0; i < kSignals.size(); ++i)
    sigaction(kSignals[i], &former_handlers[i], nullptr);
}

bool StopRequest::asked() const { return stop_asked != 0; }

}  // namespace tributary::train
