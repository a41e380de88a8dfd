#include "core/log.h"

#include <cstdio>
#include <mutex>
#include <poll.h>
#include <unistd.h>

#include "core/text.h"

namespace tributary {
namespace {

void write_line(std::string_view prefix, std::string_view text) {
  static std::mutex one_line_at_a_time;  // guards standard error
  const std::string line = str(prefix, text, "\n");
  const std::lock_guard lock(one_line_at_a_time);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

void log_note(std::string_view text) { write_line("", text); }
void log_warning(std::string_view text) { write_line("warning: ", text); }

bool log_takes_a_line(double seconds) {
  pollfd ready{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  return poll(&ready, 1, static_cast<int>(seconds * 1e3)) != 0;
}

}  // namespace tributary
