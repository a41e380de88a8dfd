#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "config/family/model_config.h"
#include "core/sample_shape.h"
#include "model/encoder/encoder.h"
#include "model/encoder/encoder_block.h"
#include "parallel/layer_boundary.h"
#include "parallel/linear.h"
#include "parallel/norm.h"

namespace tributary::model {

/// What begins the names of the parameters.
struct WhisperNames {
  std::string tower;                // audio_tower.
  std::string norm = "layer_norm";  // the last one
  std::string projector;            // the linear map itself
  std::string projector_module = "projector";
  std::string unused = {};  // rows that a class has and no pass reads; empty: none
};

/// The encoder of Whisper in Qwen2-Audio (module `audio`), and the linear map behind it (module
/// `projector`). In Qwen2.5-Omni chunks of a sound never meet.
///
/// Two convolutions make one position of two frames; pairs of positions are averaged behind the
/// last block. The reference pads each sound to 30 s and hides the padding from attention. Here an
/// item has only the frames that positions with sound depend on, one more than two for each, so
/// that work follows the length of the sound.
class WhisperAudio final : public Encoder {
 public:
  /// Appends the units of the convolutions, of each block, of the last norm, and of the linear map.
  WhisperAudio(const config::AudioConfig& config, const EncoderPlace& place,
               const WhisperNames& names);
  ~WhisperAudio() override;

  /// shape:  rows [frames, mel_bins], items back to back -> returns [tokens, width]; between stages
  ///         [positions, width]
  /// dtype:  f32 in; that of the parameters inside and out
  /// errors: Fault::kInput when rows and grids do not match or an item has an impossible number of
  ///         frames
  /// source: Radford 2022, "Whisper" (arXiv:2212.04356), section 2.2;
  ///         docs/theory/numerics.md, "Encoder of sound"
  [[nodiscard]] at::Tensor run_tower(int stage, const at::Tensor& input,
                                     std::span<const Grid> items) override;
  [[nodiscard]] at::Tensor project(const at::Tensor& features,
                                   std::span<const Grid> items) override;

  [[nodiscard]] std::int64_t input_width(int /*stage*/) const override { return config_.width; }
  [[nodiscard]] std::int64_t feature_width() const override { return config_.width; }
  [[nodiscard]] std::int64_t row_width() const override { return config_.mel_bins; }
  [[nodiscard]] std::int64_t rows_between(const Grid& item) const override {
    return config_.positions_of(item);
  }
  [[nodiscard]] std::int64_t features_of(const Grid& item) const override {
    return config_.tokens_of(item);
  }
  [[nodiscard]] std::int64_t tokens_of(const Grid& item) const override {
    return features_of(item);
  }
  [[nodiscard]] Grid smallest_item() const override;
  void set_keep(const parallel::KeepOf& keep_of) override;

 private:
  class Convolutions;
  struct SoundLayout;

  [[nodiscard]] std::shared_ptr<const SoundLayout> layout_of(std::span<const Grid> grids,
                                                             at::Device device);
  [[nodiscard]] at::Tensor embed_frames(const at::Tensor& rows,
                                        const std::shared_ptr<const SoundLayout>& layout) const;
  [[nodiscard]] at::Tensor average_pairs(const at::Tensor& hidden,
                                         const std::shared_ptr<const SoundLayout>& layout) const;

  config::AudioConfig config_;
  std::unique_ptr<Convolutions> convolutions_;
  std::vector<std::unique_ptr<EncoderBlock>> blocks_;
  parallel::Unit* norm_unit_;
  parallel::Norm norm_;
  parallel::Unit* projector_unit_;
  parallel::Linear projector_;
  std::string projector_module_;
  parallel::Keep keep_norm_ = parallel::Keep::kActivations;
  parallel::Keep keep_projector_ = parallel::Keep::kActivations;
  std::shared_ptr<const SoundLayout> layout_;  // of the latest grids
};

}  // namespace tributary::model
