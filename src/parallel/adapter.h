#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "parallel/layout.h"
#include "parallel/parameter.h"

namespace tributary::parallel {

class Unit;

/// Which linear maps have an adapter, and of which form.
struct AdapterRules {
  std::int64_t rank = 8;
  double scale = 1;            // of the product B A
  bool has_magnitude = false;  // DoRA
  std::function<bool(std::string_view module, std::string_view name)> is_wanted;
};

/// A low-rank change of a frozen linear map: x W^T + scale x A^T B^T (LoRA); with a magnitude m
/// each output is that of the changed weight, brought to the length m of its row (DoRA).
///
/// Its parameters are `name`.lora_A.weight [rank, in], `name`.lora_B.weight [out, rank] and
/// `name`.lora_magnitude_vector [out], in a unit of their own beside the map's (Unit::adapter).
/// A and B are cut as the weight is, each along its own dimension; what stays whole has gradients
/// that are added over tp.
///
/// dtype:  that of the unit; the length of a row in f32, and no gradient flows through it
/// source: Hu 2021, "LoRA" (arXiv:2106.09685); Liu 2024, "DoRA" (arXiv:2402.09353), section 4.3
class Adapter {
 public:
  /// Null where the rules of the unit's layout want none.
  [[nodiscard]] static std::optional<Adapter> beside(Unit& unit, const std::string& name,
                                                     const Parameter& weight);

  /// shape: x [rows, in of this rank], bias [out] or undefined -> returns [rows, out of this rank];
  ///        of a row cut this rank's part of the sum
  /// collective: over tp, of a row cut with a magnitude
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x, const at::Tensor& bias) const;

 private:
  Adapter(Unit& unit, const std::string& name, const Parameter& weight);

  const Layout* layout_;
  const Parameter* weight_;
  double scale_;
  Parameter* down_;  // A
  Parameter* up_;    // B
  Parameter* magnitude_ = nullptr;
};

/// Sets the magnitudes beside a unit's maps to the lengths of the rows of their weights, which is
/// where DoRA starts as long as B is 0.
///
/// collective: over shard, and over tp where a weight is cut by rows
void reset_magnitudes(Unit& unit);

}  // namespace tributary::parallel
