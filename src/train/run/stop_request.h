#pragma once

#include <chrono>
#include <string_view>

namespace tributary::train {

/// While it lives, SIGTERM and Ctrl-C ask for an end after the step; the second one ends the
/// process at once (exit 128 + signal), as it would without. So does the end of the grace after a
/// SIGTERM (exit 128 + SIGTERM), wherever the process is stuck; a person at the keyboard has no
/// such limit.
///
/// One at a time; uses SIGALRM. The former handlers are put back at destruction.
class StopRequest {
 public:
  /// `last` says what is still done before the end.
  explicit StopRequest(std::chrono::seconds grace,
                       std::string_view last = "this step and a checkpoint");
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  [[nodiscard]] bool asked() const;
};

}  // namespace tributary::train
