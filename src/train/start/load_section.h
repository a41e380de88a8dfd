#pragma once

#include <functional>

#include "mesh/health/health.h"

namespace tributary::train {

/// What tells the watch that this rank's work goes on; empty where `health` is null.
[[nodiscard]] std::function<void()> progress_of(mesh::Health* health);

/// The reading of weights or of a checkpoint during set-up, as the watch sees it, for as long as
/// this lives. Nothing where `health` is null.
class LoadSection {
 public:
  explicit LoadSection(mesh::Health* health);
  ~LoadSection();
  LoadSection(const LoadSection&) = delete;
  LoadSection& operator=(const LoadSection&) = delete;

  [[nodiscard]] std::function<void()> on_progress() const { return progress_of(health_); }

 private:
  mesh::Health* health_;
};

}  // namespace tributary::train
