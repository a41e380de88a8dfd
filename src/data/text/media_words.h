#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/family/model_config.h"
#include "core/sample_shape.h"

namespace tributary::data {

/// How the text of a family shows where images, clips and sounds stand.
enum class MediaForm { kQwenVl, kQwenOmni, kInternVl, kLlavaOneVision };

[[nodiscard]] MediaForm media_form_of(const config::ModelConfig& model);

/// A piece of what the text says of an item.
struct MediaPiece {
  std::string text;
  bool is_control = false;  // one control token
  bool is_pad = false;      // that stands for the item, or a step of a clip
};

/// What stands in the text for an image or clip; `times` are those of the steps of a clip whose
/// steps have words of their own.
///
/// Qwen-VL writes <|vision_start|><|image_pad|><|vision_end|>, and `<0.2 seconds>` in front of each
/// step with a time; Qwen2.5-Omni <|vision_bos|><|IMAGE|><|vision_eos|>; InternVL
/// <img><IMG_CONTEXT></img> and a newline, of a clip `Frame1: ` in front of each frame and a
/// newline behind it; LLaVA-OneVision <image> or <video> and a newline. Sounds are
/// <|audio_bos|><|AUDIO|><|audio_eos|>.
[[nodiscard]] std::vector<MediaPiece> write_media(MediaForm form, Modality modality,
                                                  std::span<const double> times);

/// The token of an item in the text: of InternVL that of clips is that of images.
[[nodiscard]] std::string_view pad_of(MediaForm form, Modality modality);
/// Whether the images of a turn stand in front of its clips, and these in front of its text.
[[nodiscard]] bool puts_media_first(MediaForm form);
/// Whether there is a token in front of each pad, and one behind it.
[[nodiscard]] bool wraps_pads(MediaForm form);

/// `<0.2 seconds>`: how the text says a time.
[[nodiscard]] std::string text_of_time(double seconds);

}  // namespace tributary::data
