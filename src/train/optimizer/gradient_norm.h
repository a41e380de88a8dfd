#pragma once

#include <memory>
#include <span>

#include "parallel/unit.h"

namespace tributary::train {

/// Sums the squares of this rank's share of all gradients. Over all ranks they add up to the square
/// of the global norm: where several ranks hold the same, each counts a part.
///
/// dtype:  rows of 4096 are summed in f32, rows in f64 and in order, so that the number of compute
///         threads changes no bit
/// stream: the host waits once
/// errors: none; NaN and infinity come through in the result
[[nodiscard]] double sum_squared_gradients(std::span<const std::unique_ptr<parallel::Unit>> units);

/// The factor for the gradients that makes their norm at most `most`; 1 when `most` is 0.
[[nodiscard]] double clip_factor(double norm, double most);

}  // namespace tributary::train
