#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "core/handle.h"

namespace tributary::app {

/// How to start one rank.
struct RankCommand {
  int rank = 0;
  std::vector<std::string> words = {};                              // the program is the first
  std::vector<std::pair<std::string, std::string>> variables = {};  // set in addition
  std::vector<int> descriptors = {};                                // the process inherits them
  bool prints = false;  // its output is printed as it comes, not only kept
};

/// The command that runs this executable with a verb and its arguments.
[[nodiscard]] RankCommand own_command(int rank, const std::vector<std::string>& words);
/// Gives a command its part of the cores among `processes`, unless OMP_NUM_THREADS is set.
void share_cores(RankCommand& command, std::int64_t processes);

/// One rank of a job as a process. It has its own process group, so that Ctrl-C reaches it only
/// through the launcher, and it is killed when the launcher dies. The destructor kills it and waits
/// for its end.
///
/// Output of a rank that prints is printed; of all ranks the last lines are kept. An error on
/// standard error of a rank that prints is held back at first: the rank may be about to end, and
/// all ranks may report the same.
class RankProcess {
 public:
  /// errors: Fault::kResource when the process cannot be started
  explicit RankProcess(const RankCommand& command);
  ~RankProcess();
  RankProcess(RankProcess&&) noexcept = default;
  RankProcess& operator=(RankProcess&&) = delete;

  [[nodiscard]] int rank() const { return rank_; }

  /// Adds what a poll() should wait for.
  void add_waits(std::vector<pollfd>& waits) const;
  /// Reads the output that is there. Returns whether the process has ended since the last call.
  bool look();
  /// 128 + n where signal n killed it; null while look() has not seen its end.
  [[nodiscard]] std::optional<int> exit_code() const { return exit_code_; }
  void send_signal(int signal) const;
  /// Sends SIGTERM, and wakes the process where it is stopped.
  void ask_to_end() const;

  [[nodiscard]] const std::deque<std::string>& last_lines() const { return lines_; }
  [[nodiscard]] const std::deque<std::string>& held_lines() const { return held_; }
  /// Prints the lines that were held back, because the rank goes on.
  void pass_held_lines();

 private:
  void find_end();
  void read_output();
  void close_output();
  void take_line(std::string line);

  int rank_ = 0;
  bool prints_ = false;
  pid_t pid_ = -1;
  Descriptor process_;  // becomes readable when the process ends
  Descriptor output_;   // owns nothing at its end
  std::optional<int> exit_code_;
  std::string unfinished_line_;
  std::deque<std::string> lines_;
  std::deque<std::string> held_;
};

}  // namespace tributary::app
