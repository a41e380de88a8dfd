#pragma once

#include <cstdint>
#include <deque>
#include <optional>
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
  /// A descriptor that becomes readable when the process ends.
  [[nodiscard]] int process_descriptor() const { return process_.get(); }
  [[nodiscard]] int output_descriptor() const { return output_.get(); }

  /// Reads the output that is there, and closes it at its end; its descriptor is -1 then.
  void read_output();
  void close_output();
  /// Whether the process has ended; records its exit code.
  bool has_ended();
  /// 128 + n where signal n killed it; null while it runs.
  [[nodiscard]] std::optional<int> exit_code() const { return exit_code_; }
  void send_signal(int signal) const;

  [[nodiscard]] const std::deque<std::string>& last_lines() const { return lines_; }
  [[nodiscard]] const std::deque<std::string>& held_lines() const { return held_; }
  /// Prints the lines that were held back, because the rank goes on.
  void pass_held_lines();

 private:
  void take_line(std::string line);

  int rank_ = 0;
  bool prints_ = false;
  pid_t pid_ = -1;
  Descriptor process_;
  Descriptor output_;
  std::optional<int> exit_code_;
  std::string unfinished_line_;
  std::deque<std::string> lines_;
  std::deque<std::string> held_;
};

}  // namespace tributary::app
