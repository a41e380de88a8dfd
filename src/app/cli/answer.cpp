#include "app/cli/answer.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <unistd.h>

#include "core/error.h"

namespace tributary::app {

struct Answer::State {
  bool is_asked = false;
  int output = STDOUT_FILENO;
};

Answer::Answer() : state_(std::make_shared<State>()) {}

bool& Answer::is_asked() const { return state_->is_asked; }

void Answer::take_output() const {
  std::cout.flush();
  (void)std::fflush(stdout);
  state_->output = dup(STDOUT_FILENO);
  if (state_->output < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
    TRIB_RAISE(Fault::kResource, .what = "app: standard output cannot be used",
               .found = std::strerror(errno), .expected = "an open file, pipe or terminal");
}

void Answer::give(const Json& answer) const {
  if (!state_->is_asked) return;
  const std::string line =
      answer.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t written = write(state_->output, line.data() + at, line.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EPIPE) return;
    if (written < 0)
      TRIB_RAISE(Fault::kResource, .what = "app: the answer cannot be written",
                 .where = "standard output", .found = std::strerror(errno));
    at += static_cast<std::size_t>(written);
  }
}

}  // namespace tributary::app
