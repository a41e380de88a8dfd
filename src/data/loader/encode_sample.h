#pragma once

#include <memory>
#include <optional>

#include "config/family/model_config.h"
#include "config/run/run_config.h"
#include "data/loader/sample_encoder.h"
#include "data/preprocess/qwen_vl.h"
#include "data/text/chat_template.h"

namespace tributary::data {

/// What the encoder of the Qwen families is made from.
struct QwenEncoding {
  const Tokenizer* tokenizer = nullptr;  // outlives the encoder
  ChatOptions chat;
  std::optional<PreprocessorConfig> pictures;  // absent: a text model; records with media refused
  Resize resize;                               // needed with `pictures`
  Tokens most_tokens;                          // longest sample; 0: no limit
};

/// Makes the encoder of Qwen2, Qwen3 (text) and Qwen2.5-VL.
///
/// errors of its functions: the Refusals of parse_record, MediaFolder, decode_picture, the image
///         processor; and `too_long`, `no_targets`, `no_vision` (media for a text model),
///         `length_changed`
[[nodiscard]] std::unique_ptr<SampleEncoder> make_qwen_encoder(QwenEncoding encoding);

/// Longest sample that a run takes.
[[nodiscard]] Tokens most_tokens_of(const config::RunConfig& run);

/// Makes that encoder from a run's configuration: limits, prompt and preprocessor_config.json.
///
/// owns: borrows the tokenizer
[[nodiscard]] std::unique_ptr<SampleEncoder> make_encoder(const config::RunConfig& run,
                                                          const config::ModelConfig& model,
                                                          const Tokenizer& tokenizer,
                                                          Resize resize);

/// A held-out record as it is scored: up to its last answer that is to be learned.
[[nodiscard]] Record judged_part(const Record& record);
/// The text of the last assistant turn.
[[nodiscard]] std::string last_answer(const Record& record);

/// Reads the bytes of an image: out of the folder, or out of its data URL.
[[nodiscard]] Result<std::vector<std::uint8_t>> read_picture_file(const Record& record,
                                                                  const std::string& image);
/// Reads as much of the file as its header needs.
[[nodiscard]] Result<PictureSize> measure_picture(const Record& record, const std::string& image);

}  // namespace tributary::data
