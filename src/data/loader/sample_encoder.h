#pragma once

#include <string>
#include <vector>

#include "core/result.h"
#include "core/sample_shape.h"
#include "data/sample.h"

namespace tributary::data {

struct Record;

/// The code of a Refusal for a sample that is too long; `data.too_long` says what happens to it.
inline constexpr const char* kTooLong = "too_long";

/// A held-out record, ready to be scored and to be answered by generation. Of a pair there is only
/// the sample: it is not answered.
struct HeldOutSample {
  EncodedSample sample;                 // the whole conversation with its targets: for the loss
  std::vector<std::int32_t> prompt;     // without the last assistant turn, generation prompt added;
                                        // its media are `sample.items`
  std::string question;                 // text of the last user turn
  std::string answer;                   // text of the last assistant turn
  std::vector<std::string> references;  // accepted answers: of the record, else `answer`
  std::vector<Picture> pictures;        // as decoded, before resizing: images, then frames of clips
};

/// Turns a record into tokens and patches. One per model family; safe to call from any thread.
///
/// errors: a Refusal says why this record cannot be used (`jpeg_warning`, `too_long`, ...)
class SampleEncoder {
 public:
  virtual ~SampleEncoder() = default;

  /// Whether it encodes pairs of answers (Record::rejected), and no others.
  [[nodiscard]] virtual bool takes_pairs() const { return false; }
  /// Sizes a record only from text and image headers; equals encode(record).shape() whenever encode
  /// gives a value.
  [[nodiscard]] virtual Result<SampleShape> describe(const Record& record) const = 0;
  /// Decodes and encodes; leaves `id` and `source` to the caller.
  [[nodiscard]] virtual Result<EncodedSample> encode(const Record& record) const = 0;
  /// As encode, but leaves out the rows of these modalities where it can: nothing is decoded for
  /// them, so that bad pixels go unnoticed.
  [[nodiscard]] virtual Result<EncodedSample> encode_without(const Record& record,
                                                             ModalitySet /*rows*/) const {
    return encode(record);
  }
  /// As describe, of a record that encode_held_out is to encode: it is never cut.
  [[nodiscard]] virtual Result<SampleShape> describe_held_out(const Record& record) const {
    return describe(record);
  }
  /// The pictures of a record that encode() takes, as decoded, before resizing: images and frames
  /// of clips in the order of their media.
  [[nodiscard]] virtual Result<std::vector<Picture>> pictures(const Record& record) const {
    const Result<EncodedSample> sample = encode(record);
    if (!sample) return sample.refusal();
    return std::vector<Picture>{};
  }
  [[nodiscard]] virtual Result<HeldOutSample> encode_held_out(const Record& record) const = 0;
  /// The references and the last assistant turn; empty for a document, of which a few tokens are
  /// asked.
  [[nodiscard]] virtual Result<std::vector<std::string>> answers(const Record& record) const;
};

}  // namespace tributary::data
