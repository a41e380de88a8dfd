#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/encoder/heads_norm.h"
#include "ops/activation.h"
#include "ops/attend_packed.h"
#include "ops/rotary.h"
#include "parallel/layer_boundary.h"
#include "parallel/linear.h"
#include "parallel/norm.h"
#include "parallel/unit.h"

namespace tributary::model {

/// What the blocks of an encoder have in common, and the ends of their parameters' names.
struct BlockStyle {
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t mlp_width = 0;
  parallel::NormKind norm = parallel::NormKind::kLayer;
  double norm_epsilon = 1e-6;
  double deviation = 0.02;                         // that weights start with
  std::optional<ops::Activation> activation = {};  // null: SwiGLU

  std::string norm1;             // before attention
  std::vector<std::string> qkv;  // query, key and value in one parameter, or each in its own
  bool has_key_bias = true;      // of a key with a parameter of its own
  std::string out;
  std::string norm2;             // before the MLP
  std::vector<std::string> mlp;  // gate, up and down; or first and second
  bool qkv_bias = true;
  std::vector<std::string> qk_norm = {};  // of query and key, over all heads; empty: none
  double qk_epsilon = 1e-6;
  std::vector<std::string> scales = {};  // of what attention and MLP add; empty: none
  double scale = 1;                      // that these start with

  [[nodiscard]] std::int64_t head_width() const { return width / heads; }
};

/// Which rows of a pass attend to each other, and the angles of their heads, null where positions
/// were added to the rows. It must not outlive them.
struct BlockContext {
  const ops::SampleGroups& groups;
  const ops::RotaryTable* rotary = nullptr;
};

/// A pre-norm transformer block without a mask inside each group of rows. Heads and widths are cut
/// over tp; every tp rank keeps all rows, since groups would scatter them.
class EncoderBlock {
 public:
  /// `prefix` begins the names of its parameters: visual.blocks.3.
  EncoderBlock(const BlockStyle& style, const std::string& prefix, parallel::Unit& unit);

  [[nodiscard]] bool needs_backward() const { return unit_.needs_backward(); }
  [[nodiscard]] int stage() const { return unit_.layout().virtual_stage; }
  /// shape: hidden [rows, width] -> returns the same. `owner` keeps what `context` refers to.
  /// dtype: that of the parameters; rotary angles in f32
  [[nodiscard]] at::Tensor run(const at::Tensor& hidden, const BlockContext& context,
                               std::shared_ptr<const void> owner) const;
  /// Sets what it keeps for backward.
  void set_keep(parallel::Keep keep) { keep_ = keep; }

 private:
  void declare_qkv(const BlockStyle& style, const std::string& prefix);
  /// Query, key and value heads of this rank, normalised where the block does that.
  /// shape: x [rows, width] -> returns [rows, 3 * heads, head_width]
  [[nodiscard]] at::Tensor project(const at::Tensor& x) const;
  /// `owner` as in run. shape: x [rows, width] -> returns the same
  [[nodiscard]] at::Tensor attend(const at::Tensor& x, const BlockContext& context,
                                  std::shared_ptr<const void> owner) const;
  [[nodiscard]] at::Tensor run_mlp(const at::Tensor& x) const;

  parallel::Unit& unit_;
  parallel::Keep keep_ = parallel::Keep::kActivations;
  std::int64_t heads_;  // of this tp rank
  std::int64_t head_width_;
  std::optional<ops::Activation> activation_;
  parallel::Norm norm1_;
  std::optional<parallel::Linear> qkv_;               // of one parameter
  std::optional<parallel::JoinedLinear> joined_qkv_;  // of three
  std::vector<HeadsNorm> qk_norm_;                    // of query and key
  parallel::Linear out_;
  parallel::Norm norm2_;
  std::optional<parallel::JoinedLinear> gate_up_;  // of SwiGLU
  std::optional<parallel::Linear> first_;          // of a plain MLP
  parallel::Linear last_;
  std::vector<parallel::Parameter*> scales_;  // [width] of attention and MLP
};

/// Sets what the blocks of a tower keep for backward.
void set_keep(std::span<const std::unique_ptr<EncoderBlock>> blocks, parallel::LayerKeep keep);

}  // namespace tributary::model
