#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/result.h"

namespace tributary::data {

/// The kinds of objects in a record; each kind has keys of its own.
enum class RecordObject {
  kRecord,  // with `messages` or `conversations`
  kAlpaca,  // a record of columns, by its form
  kQuery,
  kCaption,
  kPreference,
  kDocument,
  kMessage,   // a turn of `messages`
  kSpeech,    // a turn of `conversations`
  kRound,     // a question with its answer in `conversations`
  kTextPart,  // an entry of a content list, by its type
  kImagePart,
  kImageUrlPart,
  kVideoPart,
  kAudioPart,
  kImageUrl,     // {"url": ...} in a part
  kListedImage,  // {"path": ...} in a list of images or frames
  kObjects,      // {"ref": ..., "bbox": ...} beside the turns
};

/// Looks for keys that nothing reads, except those whose value says nothing.
///
/// `where` is the place of the object, such as `messages[0].content[1]`. A key without effect is
/// added to `unread` once, without item numbers: `messages[].content[].note`.
/// errors: Refusal `unread_key` when a key changes what is learned, or looks like a misspelt one
///         that is read
[[nodiscard]] std::optional<Refusal> find_unread_keys(const Json& object, RecordObject kind,
                                                      const std::string& where,
                                                      std::vector<std::string>& unread);

/// Whether a value is null, an empty text, list or object, or a text that stands for an empty list.
/// Writers of data sets leave such values in columns that a record does not use.
[[nodiscard]] bool says_nothing(const Json& value);

/// Says which keys a record of no known form has, and what it may be.
[[nodiscard]] std::string describe_other_form(const Json& root);

}  // namespace tributary::data
