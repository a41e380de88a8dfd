#pragma once

#include <memory>
#include <optional>

#include "config/family/model_config.h"
#include "config/run/run_config.h"
#include "data/loader/sample_encoder.h"
#include "data/preprocess/qwen_vl.h"
#include "data/text/chat_template.h"

namespace tributary::data {

/// The parts of an encoder of the Qwen families.
struct QwenEncoding {
  const Tokenizer* tokenizer = nullptr;  // outlives the encoder
  ChatOptions chat;
  std::optional<PreprocessorConfig>
      pictures;            // null: a text model, which refuses records with media
  Resize resize;           // needed with `pictures`
  Tokens most_tokens;      // of the longest sample; 0: no limit
  bool truncates = false;  // a longer one is cut; else it is refused
};

/// Makes the encoder of Qwen2, Qwen3 (text) and Qwen2.5-VL.
///
/// errors of its functions: the Refusals of parse_record, MediaFolder, decode_picture, the image
///         processor; and `too_long`, `no_targets`, `no_vision` (media for a text model),
///         `length_changed`
[[nodiscard]] std::unique_ptr<SampleEncoder> make_qwen_encoder(QwenEncoding encoding);

/// The max length of a sample in a run.
[[nodiscard]] Tokens most_tokens_of(const config::RunConfig& run);

/// Makes that encoder from a run's configuration: limits, prompt and preprocessor_config.json.
///
/// owns: borrows the tokenizer
[[nodiscard]] std::unique_ptr<SampleEncoder> make_encoder(const config::RunConfig& run,
                                                          const config::ModelConfig& model,
                                                          const Tokenizer& tokenizer,
                                                          Resize resize);

/// The part of a held-out record that is scored: up to its last answer that counts in the loss.
[[nodiscard]] Record judged_part(const Record& record);
/// The text of the last assistant turn; empty for a document, of which a few tokens are asked.
[[nodiscard]] std::string last_answer(const Record& record);

/// Reads the bytes of an image from the container, the folder, or its data URL.
[[nodiscard]] Result<std::vector<std::uint8_t>> read_picture_file(const Record& record,
                                                                  const std::string& image);
/// Reads at most `most` bytes of the file of an image that is no data URL.
[[nodiscard]] Result<std::vector<std::uint8_t>> read_picture_beginning(const Record& record,
                                                                       const std::string& image,
                                                                       std::size_t most);
/// Decodes an image; a refusal names it.
[[nodiscard]] Result<Picture> decode_named_picture(const Record& record, const std::string& image);
/// Reads the size of an image from the header of its file.
[[nodiscard]] Result<PictureSize> measure_picture(const Record& record, const std::string& image);

}  // namespace tributary::data
