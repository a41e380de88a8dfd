#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "mesh/transport/group.h"

namespace tributary::parallel {

/// A row that one rank makes and one rank needs.
struct RowMove {
  std::int64_t from = 0;   // rank in the group
  std::int64_t row = 0;    // of what that rank has; each row moves once
  std::int64_t to = 0;     // rank in the group
  std::int64_t place = 0;  // of the row there
};

/// Moves rows to just the ranks that need them. Made alike on all ranks of the group.
class RowRoute {
 public:
  RowRoute(std::span<const RowMove> moves, const mesh::Group& group, at::Device device);

  /// Where the rows that arrive belong. shape: [arriving rows] i64
  [[nodiscard]] const at::Tensor& places() const { return places_; }
  /// shape: rows [rows of this rank, width] -> returns [arriving rows, width]; backward goes the
  ///        way back, rows that did not move get gradient 0
  /// collective: over the group, forward and backward
  [[nodiscard]] at::Tensor operator()(const at::Tensor& rows) const;

 private:
  const mesh::Group* group_;
  at::Tensor chosen_;  // [sent rows] i64, by the rank that gets them
  at::Tensor places_;
  std::vector<std::int64_t> send_;
  std::vector<std::int64_t> receive_;
};

}  // namespace tributary::parallel
