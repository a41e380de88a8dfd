#pragma once

/// Choices that a run's configuration, a plan and a profile all name.
namespace tributary::config {

enum class Dtype { kFloat32, kBfloat16 };
enum class Packing { kNone, kOnlineBestFit, kBestFitDecreasing, kLevel };
enum class Balance { kNone, kLpt, kLpt2d };
enum class Offload { kNone, kOptimizer, kParameters };
enum class FeatureMemory { kDevice, kHost };
enum class BesideStages { kAll, kFirst };
enum class Shard { kParameters, kOptimizer };
enum class Release { kAuto, kAfterForward, kNever };
enum class ReduceDtype { kFloat32, kSame };
enum class Placement { kInline, kColocated, kSeparate, kFlow, kSliced };

}  // namespace tributary::config
