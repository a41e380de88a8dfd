#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "core/box.h"

namespace tributary::mesh {
class Group;
}

namespace tributary::parallel {

/// How a parameter starts when no weights are loaded.
/// kSinusoids is a table of positions: in row p the sines, then the cosines, of p by frequencies
/// that fall from 1 to 1/10000.
struct Initializer {
  enum class Kind { kZeros, kOnes, kConstant, kNormal, kUniform, kSinusoids } kind = Kind::kZeros;
  // Of kNormal; the value of kConstant; of kUniform, which lies around 0, the largest one.
  double deviation = 0;
};

/// Consecutive entries of one dimension.
struct Range {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// The part of a parameter that this tp rank holds.
struct Split {
  int dim = -1;               // -1: the whole parameter
  std::vector<Range> ranges;  // of that dimension, back to back here; one range unless dim is 0
  std::int64_t padded = 0;    // entries kept of that dimension; beyond the ranges unused zeros
  /// Ranks that hold the same part; single when no other does. The first of them writes it.
  const mesh::Group* copies = nullptr;
  /// Whether the copies see different tokens or heads, so that their gradients must be added.
  bool partial_gradient = false;
};

/// One parameter of a model. A block keeps a pointer to it; its unit owns it.
struct Parameter {
  std::string name;                 // as in released checkpoints
  std::vector<std::int64_t> shape;  // of the whole parameter
  Split split;
  Initializer initializer;
  bool is_map = false;      // the weight of a linear map of a layer
  bool is_fixed = false;    // a table that no step changes
  at::Tensor value;         // [local shape] view of the unit's flat buffer, a leaf
  std::int64_t offset = 0;  // of its first element in the flat buffer

  /// The whole shape, cut by the split.
  [[nodiscard]] std::vector<std::int64_t> local_shape() const;
  [[nodiscard]] std::int64_t elements() const;        // of the whole parameter
  [[nodiscard]] std::int64_t local_elements() const;  // of the local shape
};

/// Parameters that lie back to back and differ only in their first dimension, so that one product
/// serves them all: query, key and value; gate and up.
struct JoinedParameters {
  std::vector<Parameter*> parts;
  at::Tensor value;  // [sum of local first dimensions, ...], a leaf over the memory of the parts
};

/// A box of a whole parameter whose elements lie in one piece, row-major, from `first` on.
struct PlacedBox {
  Box box;
  std::int64_t first = 0;
};

/// Cuts the elements [begin, end) of the local part of a parameter into boxes of the whole one.
///
/// shape: `first` counts from `begin`; padding entries are in no box
/// cost:  at most 2 * dimensions - 1 boxes for each range of the split
[[nodiscard]] std::vector<PlacedBox> boxes_of(const Parameter& parameter, std::int64_t begin,
                                              std::int64_t end);

}  // namespace tributary::parallel
