#pragma once

#include <functional>

#include "mesh/health/health.h"

namespace tributary::train {

/// Returns what tells the watch that this rank's work goes on; empty where `health` is null.
[[nodiscard]] std::function<void()> progress_of(mesh::Health* health);

/// While it lives, the watch knows that this rank reads weights or a checkpoint during set-up. Does
/// nothing where `health` is null.
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
