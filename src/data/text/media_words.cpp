#include "data/text/media_words.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "core/error.h"

namespace tributary::data {
namespace {

/// The control tokens of a family; without `begin` a pad stands alone.
struct MediaTokens {
  std::string_view begin;
  std::string_view image;
  std::string_view clip;
  std::string_view end;
};

// Of sounds, which have tokens of their own; the pad of clips is not used.
constexpr MediaTokens kSoundTokens{"<|audio_bos|>", "<|AUDIO|>", "", "<|audio_eos|>"};
constexpr MediaTokens kQwenVlTokens{"<|vision_start|>", "<|image_pad|>", "<|video_pad|>",
                                    "<|vision_end|>"};
constexpr MediaTokens kOmniTokens{"<|vision_bos|>", "<|IMAGE|>", "<|VIDEO|>", "<|vision_eos|>"};
constexpr MediaTokens kLlavaOneVisionTokens{"", "<image>", "<video>", ""};
constexpr MediaTokens kInternVlTokens{"<img>", "<IMG_CONTEXT>", "<IMG_CONTEXT>", "</img>"};

const MediaTokens& media_tokens_of(MediaForm form, Modality modality = Modality::kImage) {
  if (modality == Modality::kAudio) return kSoundTokens;
  switch (form) {
    case MediaForm::kQwenVl:
      break;
    case MediaForm::kQwenOmni:
      return kOmniTokens;
    case MediaForm::kInternVl:
      return kInternVlTokens;
    case MediaForm::kLlavaOneVision:
      return kLlavaOneVisionTokens;
  }
  return kQwenVlTokens;
}

bool is_qwen(MediaForm form) { return form == MediaForm::kQwenVl || form == MediaForm::kQwenOmni; }

/// The words in front of a step of a clip.
std::string words_of_step(MediaForm form, std::size_t step, double time) {
  if (is_qwen(form)) return text_of_time(time);
  return str(step > 0 ? "\n" : "", "Frame", step + 1, ": ");
}

}  // namespace

MediaForm media_form_of(const config::ModelConfig& model) {
  if (model.family == config::ModelFamily::kInternVl ||
      model.family == config::ModelFamily::kInternVlChat)
    return MediaForm::kInternVl;
  if (model.family == config::ModelFamily::kQwen2_5OmniThinker) return MediaForm::kQwenOmni;
  if (model.family == config::ModelFamily::kLlavaOneVision) return MediaForm::kLlavaOneVision;
  return MediaForm::kQwenVl;
}

std::string_view pad_of(MediaForm form, Modality modality) {
  TRIB_CHECK(modality != Modality::kText, .what = "data: medium of a chat is text");
  const MediaTokens& tokens = media_tokens_of(form, modality);
  return modality == Modality::kVideo ? tokens.clip : tokens.image;
}

bool puts_media_first(MediaForm form) { return form == MediaForm::kLlavaOneVision; }
bool wraps_pads(MediaForm form) { return !media_tokens_of(form).begin.empty(); }

std::vector<MediaPiece> write_media(MediaForm form, Modality modality,
                                    std::span<const double> times) {
  const MediaTokens& tokens = media_tokens_of(form, modality);
  std::vector<MediaPiece> pieces;
  const auto control = [&](std::string_view text, bool is_pad) {
    if (!text.empty())
      pieces.push_back({.text = std::string(text), .is_control = true, .is_pad = is_pad});
  };
  for (std::size_t step = 0; step < std::max<std::size_t>(1, times.size()); ++step) {
    if (!times.empty()) pieces.push_back({.text = words_of_step(form, step, times[step])});
    control(tokens.begin, false);
    control(pad_of(form, modality), true);
    control(tokens.end, false);
  }
  if (!is_qwen(form)) pieces.push_back({.text = "\n"});
  return pieces;
}

std::string text_of_time(double seconds) {
  std::array<char, 64> text{};
  (void)std::snprintf(text.data(), text.size(), "<%.1f seconds>", seconds);
  return text.data();
}

}  // namespace tributary::data
