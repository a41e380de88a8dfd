#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "core/units.h"
#include "memory/progress/object_gets.h"
#include "model/model.h"
#include "train/flow/flow_module.h"

namespace tributary::train {

// The objects of a tower that trains, besides features. Ranks lend its weights, once a step, and
// the gradients of features, once a group: the samples of a microbatch. Encoders give the gradient
// of the weights by a group back. Weights and their gradients travel in pieces.

enum class TowerObject : std::uint16_t {
  kFeatures = 0,
  kWeights = 1,
  kFeatureGradients = 2,
  kGradient = 3
};

inline constexpr std::uint16_t kModulePart = 0xff;  // of Key::part: FlowModule::part

/// The object of a group, which its first sample names; of weights, the first sample of the step.
[[nodiscard]] memory::Key key_of(const FlowModule& module, TowerObject what, std::int64_t sample,
                                 std::uint64_t step, std::int64_t piece = 0);
/// What an object of an encoder is.
[[nodiscard]] TowerObject kind_of(const memory::Key& key);

/// The units of a tower, which this process holds whole, as one flat row of values and one of
/// gradients.
class FlatTower {
 public:
  FlatTower(const model::Model& model, const std::string& module);

  /// Whose type and device the gradient has.
  [[nodiscard]] at::TensorOptions gradient_options() const {
    return units_.front()->shard_gradient().options();
  }
  [[nodiscard]] at::TensorOptions value_options() const {
    return units_.front()->shard_value().options();
  }
  [[nodiscard]] Bytes value_bytes() const;
  [[nodiscard]] Bytes gradient_bytes() const;
  /// A copy on the host. shape: [elements]
  [[nodiscard]] at::Tensor values() const;
  /// A copy. shape: [elements]
  [[nodiscard]] at::Tensor gradient() const;
  /// shape: from [elements], as above, on any device
  void set_values(const at::Tensor& from);
  void set_gradient(const at::Tensor& from);
  void clear_gradient();

 private:
  std::vector<parallel::Unit*> units_;
};

/// A row of bytes in pieces of one size; the last one may be smaller.
struct Pieces {
  std::int64_t bytes = 0, piece_bytes = 0;

  [[nodiscard]] std::int64_t count() const { return (bytes + piece_bytes - 1) / piece_bytes; }
  [[nodiscard]] std::int64_t bytes_of(std::int64_t piece) const {
    return std::min(piece_bytes, bytes - piece * piece_bytes);
  }
  /// shape: row [elements], on the host
  [[nodiscard]] std::span<const std::byte> of(const at::Tensor& row, std::int64_t piece) const {
    return std::span(static_cast<const std::byte*>(row.const_data_ptr()), row.nbytes())
        .subspan(static_cast<std::size_t>(piece * piece_bytes),
                 static_cast<std::size_t>(bytes_of(piece)));
  }
  /// Joins pieces that have come; none when one is missing or has another size.
  /// shape: returns [elements] on the host
  [[nodiscard]] at::Tensor join(std::span<const memory::PoolObject> pieces,
                                const at::TensorOptions& options) const;
};

/// The gradient of the features of one sample of a group.
struct FeatureGradient {
  std::int64_t sample = 0;
  std::uint32_t mark = 0;  // record_mark
  at::Tensor values = {};  // [features, width]
};
/// The size of the object of a group. shape: rows [samples] of features
[[nodiscard]] Bytes group_bytes(const model::Model& model, const FlowModule& module,
                                std::span<const std::int64_t> rows);
[[nodiscard]] std::vector<std::byte> write_group(std::span<const FeatureGradient> group);
/// The tensors share the bytes. errors: Fault::kInput where they are no such group
[[nodiscard]] std::vector<FeatureGradient> read_group(std::span<const std::byte> bytes,
                                                      std::int64_t samples,
                                                      const model::Model& model,
                                                      const FlowModule& module);

/// Adds the gradient of a sample to that of the tower, from the features with their graph.
void run_tower_backward(const at::Tensor& features, const FeatureGradient& gradient);

}  // namespace tributary::train
