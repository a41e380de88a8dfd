#pragma once

#include <memory>

#include <c10/core/Device.h>

#include "mesh/mesh.h"
#include "parallel/stage_map.h"

namespace tributary::parallel {

class UnitChain;
struct AdapterRules;

/// When a unit frees its whole values.
enum class Release { kAfterForward, kAfterStep };

/// How a module lies over the ranks. A value that is passed around; there is no ambient one.
///
/// The default is one rank, on which every block is the plain op.
struct Layout {
  const mesh::Mesh* mesh = &one_rank();  // outlives every block
  /// What the units of one model share; null: nothing is sharded.
  std::shared_ptr<UnitChain> chain;
  /// Whether the tokens are split over tp outside of column and row pairs.
  bool sequence_parallel = false;
  /// Where a pipeline cuts the module; null: every rank of it holds all layers.
  std::shared_ptr<const StageMap> stages;
  /// Which linear maps have an adapter; null: none has.
  std::shared_ptr<const AdapterRules> adapters;
  int virtual_stage = 0;  // of the units that are made with this value

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
  /// The same ranks for layers of another virtual stage.
  [[nodiscard]] Layout at_stage(int stage) const {
    Layout layout = *this;
    layout.virtual_stage = stage;
    return layout;
  }
  [[nodiscard]] int virtual_stages() const { return stages ? stages->size() : 1; }
  /// The pp coordinate that runs a virtual stage, and whether it is that of this rank.
  [[nodiscard]] int holder(int stage) const { return stages ? stages->holder(stage) : 0; }
  [[nodiscard]] bool holds(int stage) const {
    return mesh->is_here() && (!stages || stages->holder(stage) == mesh->at().pp);
  }
  [[nodiscard]] bool is_here() const { return holds(virtual_stage); }
  /// Whether this rank computes logits and losses.
  [[nodiscard]] bool holds_head() const { return holds(virtual_stages() - 1); }
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
