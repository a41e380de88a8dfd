#pragma once

#include <memory>
#include <optional>
#include <string>

#include "config/family/model_config.h"
#include "config/run/run_config.h"
#include "data/loader/record_media.h"
#include "data/loader/sample_encoder.h"
#include "data/preprocess/qwen_vl.h"
#include "data/preprocess/whisper.h"
#include "data/text/chat_template.h"

namespace tributary::data {

/// The parts of an encoder of the Qwen families.
struct QwenEncoding {
  const Tokenizer* tokenizer = nullptr;  // outlives the encoder
  ChatOptions chat;
  std::optional<PreprocessorConfig> pictures;  // null: a model that refuses images and clips
  Resize resize;                               // needed with `pictures`
  std::optional<SoundConfig> sounds = {};      // null: a model that refuses sounds
  LogMel log_mel = {};                         // needed to encode with `sounds`
  Tokens max_tokens;                           // of the longest sample; 0: no limit
  std::string limit_source = {};               // of that limit, for messages; may be empty
  bool truncates = false;                      // a longer one is cut; else it is refused
  bool takes_pairs = false;                    // records are pairs of answers
};

/// Makes the encoder of samples of all families.
///
/// errors of its functions: the Refusals of parse_record, MediaFolder, decode_picture,
/// decode_sound,
///         the image processor, grid_of_sound; and `too_long`, `no_targets`, `no_vision` and
///         `no_sound` (media that the model cannot take), `length_changed`
[[nodiscard]] std::unique_ptr<SampleEncoder> make_qwen_encoder(QwenEncoding encoding);

/// The max length of a sample in a run: that of its configuration, or of the model's dynamic rope.
[[nodiscard]] Tokens max_tokens_of(const config::RunConfig& run,
                                   const config::BackboneConfig& backbone);

/// Makes that encoder from a run's configuration: limits, prompt and preprocessor_config.json.
///
/// owns: borrows the tokenizer
[[nodiscard]] std::unique_ptr<SampleEncoder> make_encoder(const config::RunConfig& run,
                                                          const config::ModelConfig& model,
                                                          const Tokenizer& tokenizer, Resize resize,
                                                          LogMel log_mel = {});

/// The part of a held-out record that is scored: up to its last answer that counts in the loss.
[[nodiscard]] Record judged_part(const Record& record);

}  // namespace tributary::data
