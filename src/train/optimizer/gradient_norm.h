#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "parallel/unit.h"

namespace tributary::train {

/// Sums of squares of numbers that lie like the trained parameters.
struct ModuleSquares {
  double all = 0;
  std::vector<double> by_module = {};  // as trained_modules() lists them
};

/// The modules with trained parameters, each where a unit first names it: the same on all ranks.
[[nodiscard]] std::vector<std::string> trained_modules(
    std::span<const std::unique_ptr<parallel::Unit>> units);

/// Sums the squares of this rank's share of buffers that lie like the shards of the trainable
/// units. Over all ranks they add up to squares of norms: where several ranks hold the same, each
/// counts a part.
///
/// dtype: rows of 4096 are summed in f32, rows in f64 and in order, so that the number of compute
///        threads changes no bit
class SquareSums {
 public:
  explicit SquareSums(std::span<const std::unique_ptr<parallel::Unit>> units)
      : modules_(trained_modules(units)) {}

  /// stream: the host does not wait, and the buffer may change afterwards
  void add(const parallel::Unit& unit, const at::Tensor& shard);
  /// stream: the host waits once for each number of copies
  /// errors: none; NaN and infinity come through in the result
  [[nodiscard]] ModuleSquares sums() const;

 private:
  /// Norms of rows of which equally many ranks hold the same.
  struct Rows {
    std::vector<at::Tensor> norms;
    std::vector<std::size_t> modules;  // [norms]
  };
  void add_rows(const at::Tensor& flat, std::size_t module, Rows& rows);

  std::vector<std::string> modules_;
  std::map<int, Rows> by_copies_;
};

/// The squares of this rank's share of all gradients.
[[nodiscard]] ModuleSquares square_gradients(
    std::span<const std::unique_ptr<parallel::Unit>> units);

/// The factor for the gradients that makes their norm at most `max`; 1 when `max` is 0.
[[nodiscard]] double clip_factor(double norm, double max);

}  // namespace tributary::train
