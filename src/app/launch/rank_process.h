#pragma once

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
  std::vector<std::string> words = {};                              // program first
  std::vector<std::pair<std::string, std::string>> variables = {};  // beside those of this process
  int store_descriptor = -1;  // is handed to the process; -1: none
};

/// One rank of a job as a process of its own: in its own process group, so that Ctrl-C reaches it
/// through the launcher alone, and killed when the launcher dies. Killed and waited for when this
/// object goes.
///
/// The output of rank 0 passes through; of the others the last lines are kept. Lines on standard
/// error of rank 0 are kept too, and an error among them is held back: it may be the end, and all
/// ranks may say the same.
class RankProcess {
 public:
  /// errors: Fault::kResource when the process cannot be started
  explicit RankProcess(const RankCommand& command);
  ~RankProcess();
  RankProcess(RankProcess&&) noexcept = default;
  RankProcess& operator=(RankProcess&&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  /// Becomes readable when the process ends.
  [[nodiscard]] int process_descriptor() const { return process_.get(); }
  [[nodiscard]] int output_descriptor() const { return output_.get(); }

  /// Reads what there is; at the end of the output its descriptor becomes -1, as it does by
  /// close_output.
  void read_output();
  void close_output();
  /// Takes note when the process has ended; true when it had or has.
  bool has_ended();
  /// 128 + n: killed by signal n; nothing while it runs.
  [[nodiscard]] std::optional<int> exit_code() const { return exit_code_; }
  void send_signal(int signal) const;

  [[nodiscard]] const std::deque<std::string>& last_lines() const { return lines_; }
  [[nodiscard]] const std::deque<std::string>& held_lines() const { return held_; }
  /// Passes on what is held back: the rank goes on.
  void pass_held_lines();

 private:
  void take_line(std::string line);

  int rank_ = 0;
  pid_t pid_ = -1;
  Descriptor process_;
  Descriptor output_;
  std::optional<int> exit_code_;
  std::string unfinished_line_;
  std::deque<std::string> lines_;
  std::deque<std::string> held_;
};

}  // namespace tributary::app
