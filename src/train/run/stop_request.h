#pragma once

namespace tributary::train {

/// While it lives, SIGTERM and Ctrl-C ask for an end after the step; the second one ends the
/// process at once (exit 128 + signal), as it would without.
///
/// One at a time; the former handlers are put back at destruction.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  [[nodiscard]] bool asked() const;
};

}  // namespace tributary::train
