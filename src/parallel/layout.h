#pragma once

#include <memory>

#include <c10/core/Device.h>

#include "mesh/mesh.h"

namespace tributary::parallel {

class UnitChain;

/// When the whole values of a unit are given back.
enum class Release { kAfterForward, kAfterStep };

/// How a module lies over the ranks. A value that is passed around; there is no ambient one.
///
/// The default is one rank, on which every block is the plain op.
struct Layout {
  const mesh::Mesh* mesh = &one_rank();  // outlives every block
  /// What the units of one model share; none: nothing is sharded.
  std::shared_ptr<UnitChain> chain;
  /// Outside of column and row pairs the tokens are split over tp.
  bool sequence_parallel = false;

  [[nodiscard]] const mesh::Group& tp() const { return mesh->tp(); }
  /// Whether this rank now has a part of the tokens outside of column and row pairs.
  [[nodiscard]] bool splits_tokens() const;
  /// Whether cp and ulysses ranks now have different tokens of a pack.
  [[nodiscard]] bool splits_sequence() const;
  /// The same ranks for a module whose tokens every tp rank holds: a vision tower.
  [[nodiscard]] Layout with_whole_tokens() const {
    Layout layout = *this;
    layout.sequence_parallel = false;
    return layout;
  }
  [[nodiscard]] static const mesh::Mesh& one_rank();
};

/// While it lives every rank of a replica holds all tokens: decoding takes single ones, which
/// cannot be split.
class TokensWhole {
 public:
  explicit TokensWhole(const Layout& layout);
  ~TokensWhole();
  TokensWhole(const TokensWhole&) = delete;
  TokensWhole& operator=(const TokensWhole&) = delete;

 private:
  UnitChain* chain_;
};

}  // namespace tributary::parallel
