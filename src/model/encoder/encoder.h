#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "core/sample_shape.h"
#include "parallel/layer_boundary.h"
#include "parallel/layout.h"
#include "parallel/unit.h"

namespace tributary::model {

/// Where the units of an encoder lie and whom they are appended to.
struct EncoderPlace {
  const parallel::Layout* apart = nullptr;  // of the tower; null: in the backbone's first stage
  parallel::Layout first_stage = {};        // of the backbone, with the projector
  std::vector<std::unique_ptr<parallel::Unit>>* units = nullptr;

  /// Appends a unit of the projector.
  [[nodiscard]] parallel::Unit& add_projector(const std::string& module,
                                              const std::string& name) const;
  /// Appends a unit of the tower that belongs to a layer.
  [[nodiscard]] parallel::Unit& add_tower(const std::string& module, const std::string& name,
                                          std::int64_t layer) const;
};

/// A tower that makes features of media, and the projector that makes tokens of the backbone of
/// them. It sees items as grids of input rows, back to back.
class Encoder {
 public:
  virtual ~Encoder() = default;
  Encoder() = default;
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  /// Runs one stage of the tower, or all of it where it has no stages of its own.
  /// shape: input [input rows, row_width] f32, or after the first stage what the one before
  ///        returned -> returns [rows_between, input_width(stage + 1)], from the last stage
  ///        [features, feature_width]
  [[nodiscard]] virtual at::Tensor run_tower(int stage, const at::Tensor& input,
                                             std::span<const Grid> items) = 0;
  /// shape: features as the tower returns them -> [tokens, token_width], items and tokens in their
  ///        order
  [[nodiscard]] virtual at::Tensor project(const at::Tensor& features,
                                           std::span<const Grid> items) = 0;

  /// The width of what a later stage of the tower takes.
  [[nodiscard]] virtual std::int64_t input_width(int stage) const = 0;
  [[nodiscard]] virtual std::int64_t feature_width() const = 0;
  /// Values of an input row.
  [[nodiscard]] virtual std::int64_t row_width() const = 0;
  /// Rows of features, and tokens of the backbone, of one item.
  [[nodiscard]] virtual std::int64_t features_of(const Grid& item) const = 0;
  [[nodiscard]] virtual std::int64_t tokens_of(const Grid& item) const = 0;
  /// Rows of one item between two stages of the tower.
  [[nodiscard]] virtual std::int64_t rows_between(const Grid& item) const {
    return features_of(item);
  }
  /// The smallest item that the tower can encode.
  [[nodiscard]] virtual Grid smallest_item() const = 0;

  /// Says what the layers of its modules keep for backward.
  virtual void set_keep(const parallel::KeepOf& keep_of) = 0;
};

}  // namespace tributary::model
