#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "parallel/adapter.h"
#include "parallel/unit.h"

namespace tributary::parallel {

enum class Bias { kNone, kZeros };  // kZeros: a bias that starts at 0

/// The part of a linear map that a tp rank computes.
///
/// kColumns: some outputs of all tokens; rows that are split over tp are gathered before. kRows:
/// its part of the sum over inputs, which the ranks then add. kWhole: all outputs, for its own
/// tokens.
enum class Cut { kWhole, kColumns, kRows };

/// Outputs of a column cut that stay together: heads of one width.
struct Heads {
  std::int64_t count = 0;
  std::int64_t width = 1;
  std::int64_t stacks = 1;  // query, key and value one after the other
  bool has_bias = true;     // of a joined map, where its shape has biases

  [[nodiscard]] std::int64_t rows() const { return count * width * stacks; }
};

/// Sizes of a linear block and the deviation its weight starts with.
struct LinearShape {
  std::int64_t in = 0;
  std::int64_t out = 0;
  Bias bias = Bias::kNone;
  double deviation = 0.02;
  Cut cut = Cut::kWhole;
  Heads heads = {};  // of a column cut; 0: single outputs
};

/// x W^T + b, with parameters `name`.weight [out, in] and `name`.bias [out].
///
/// source: Shoeybi 2019, "Megatron-LM" (arXiv:1909.08053), section 3, for the cuts
class Linear {
 public:
  Linear(Unit& unit, const std::string& name, LinearShape shape);
  /// shape: x [rows, in], of a row cut [rows, in / tp] -> returns [rows, out], of a column cut
  ///        [rows, out / tp]
  /// collective: over tp, of a column or row cut
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x) const;

 private:
  [[nodiscard]] at::Tensor map(const at::Tensor& x, const at::Tensor& bias) const;

  const Layout* layout_;
  Cut cut_;
  Parameter* weight_;
  Parameter* bias_ = nullptr;
  std::optional<Adapter> adapter_;
};

/// Several linear maps of the same input as one product: the results lie side by side in each row.
/// In checkpoints they are separate parameters. Each is cut by columns.
class JoinedLinear {
 public:
  /// `out`, `cut` and `heads` of the shape are not read: `outs` has one entry a name.
  JoinedLinear(Unit& unit, const std::vector<std::string>& names, const std::vector<Heads>& outs,
               LinearShape shape);
  /// shape: x [rows, in] -> returns [rows, sum of this rank's outputs]
  /// collective: over tp
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x) const;

  // The maps one by one, so that work on the first can begin while the next is computed.
  /// The rows that all of them work on. collective: over tp
  [[nodiscard]] at::Tensor gather(const at::Tensor& x) const;
  /// shape: gathered [rows, in] -> returns [rows, this rank's outputs of one map]
  [[nodiscard]] at::Tensor part(std::size_t index, const at::Tensor& gathered) const;

 private:
  /// Of one map; undefined without.
  [[nodiscard]] at::Tensor bias_of(std::size_t index) const;
  /// Of all maps side by side.
  [[nodiscard]] at::Tensor whole_bias() const;

  const Layout* layout_;
  JoinedParameters* weight_;
  JoinedParameters* bias_ = nullptr;
  std::vector<std::optional<Adapter>> adapters_;  // of each map; empty when none has one
  std::vector<Parameter*> single_biases_ = {};    // where some maps have none: null for those
};

}  // namespace tributary::parallel
