#pragma once

#include <cstdint>

#include "config/run/run_config.h"

namespace tributary::train {

/// Gives the share of the peak learning rate at one optimizer step.
///
/// With w = warm-up steps and n = steps of the run: step s < w gives (s + 1) / w. After it, with f
/// = final_ratio: `constant` 1; `linear` 1 - (1 - f) t and `cosine` f + (1 - f) (1 + cos(pi t)) / 2
/// with t = (s - w) / (n - w); `warmup_stable_decay` 1 until n - decay_steps, or until w where that
/// is later, then linear to f at n. A step beyond n gives f (`constant`: 1).
///
/// units:  `step` counts optimizer steps from 0; skipped steps do not count
/// source: Loshchilov 2017, "SGDR", section 3 (cosine); Hu 2024, "MiniCPM", section 4 (stable
/// decay)
[[nodiscard]] double learning_rate_factor(const config::ScheduleSection& schedule,
                                          std::int64_t steps, std::int64_t step);

}  // namespace tributary::train
