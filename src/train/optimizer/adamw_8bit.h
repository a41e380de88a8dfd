#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "config/run/run_config.h"
#include "train/optimizer/update_rule.h"

namespace tributary::train {

/// Whether AdamW8bit keeps the moments of a parameter in 8 bits: matrices of at least 4096
/// elements. Those of smaller parameters are few, and those of vectors are sensitive.
[[nodiscard]] bool is_quantised(const parallel::Parameter& parameter);

/// A vector of numbers in 8 bits: in blocks of 256, each as a share of the largest magnitude of its
/// block, by a table that is fine near 0.
///
/// source: Dettmers 2022, "8-bit optimizers via block-wise quantization" (arXiv:2110.02861)
class BlockQuantised {
 public:
  /// Zeros. `is_signed`: else all numbers are at least 0, and the table is twice as fine.
  BlockQuantised(std::int64_t elements, bool is_signed, at::Device device);

  /// shape: returns [elements] f32
  [[nodiscard]] at::Tensor read() const;
  /// Reading what was read and written gives the same bits.
  /// shape: values [elements] f32
  void write(const at::Tensor& values);

 private:
  std::int64_t elements_;
  at::Tensor table_;    // f32, ascending
  at::Tensor borders_;  // f32, between neighbours of the table
  at::Tensor codes_;    // u8 [blocks, 256]
  at::Tensor largest_;  // f32 [blocks, 1]
};

/// AdamW with moments in 8 bits: 2 bytes for each parameter in place of 8. In checkpoints they are
/// f32, so that another mesh can read them.
///
/// owns:   the moments; f32 copies from a call of append_state to the next update
/// cost:   f32 moments of one parameter at a time
/// source: as BlockQuantised; Loshchilov 2019, algorithm 2
class AdamW8bit : public UpdateRule {
 public:
  AdamW8bit(const MasterShards& masters, const config::OptimizerSection& settings,
            const Takes& takes);

  void update(double learning_rate, double gradient_factor, const parallel::Unit* only) override;
  /// Names: exp_avg.<parameter>, exp_avg_sq.<parameter>.
  void append_state(const parallel::Unit& unit, const parallel::Parameter& parameter,
                    std::vector<NamedTensor>& state) const override;
  void restore() override;

 private:
  struct Moments {
    const parallel::Unit* unit = nullptr;
    const parallel::Parameter* parameter = nullptr;
    parallel::Range own;  // of it in the shard
    double learning_rate_scale = 1;
    double weight_decay = 0;
    at::Tensor value;  // f32 [own]
    at::Tensor gradient;
    BlockQuantised exp_avg;
    BlockQuantised exp_avg_sq;
    mutable at::Tensor shown_avg = {};  // as append_state gave them; else undefined
    mutable at::Tensor shown_avg_sq = {};
  };

  double beta1_;
  double beta2_;
  double epsilon_;
  at::Tensor step_count_;
  std::vector<Moments> moments_;
};

}  // namespace tributary::train
