#pragma once

/// Choices that a run's configuration, a plan and a profile all name.
namespace tributary::config {

enum class Dtype { kFloat32, kBfloat16 };
enum class Packing { kNone, kOnlineBestFit, kBestFitDecreasing, kLevel };
enum class Balance { kNone, kLpt, kLpt2d };
enum class Offload { kNone, kOptimizer, kParameters };

}  // namespace tributary::config
