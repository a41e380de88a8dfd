#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "data/record/conversation.h"

namespace tributary::data {

class MediaFolder;

/// A clip as a list of frame pictures.
struct Clip {
  std::vector<std::string> frames;  // paths or data URLs
  double fps = 2;                   // frames per second of `frames`

  friend bool operator==(const Clip&, const Clip&) = default;
};

/// One line of a data set, checked but with its pictures still in their files.
struct Record {
  std::string key;  // file:line
  std::vector<Turn> turns;
  std::vector<std::string> images;  // paths or data URLs; a MediaReference indexes this list
  std::vector<Clip> clips;
  const MediaFolder* folder = nullptr;   // where paths start; null only if all are data URLs
  std::vector<std::string> unread_keys;  // keys without effect: `id`, `messages[].name`
};

/// How a record is written.
enum class RecordForm { kMessages, kConversations };

/// A record, and the form in which it is written.
struct ParsedRecord {
  RecordForm form = RecordForm::kMessages;
  Record record;
};

/// Reads one JSON line in the OpenAI form (`messages`) or the ShareGPT form (`conversations`).
///
/// Media: parts `image_url`, `image`, `video` of a content list; or `<image>` and `<video>` in the
/// text, taken in order from the lists `image`/`images` and `video`/`videos`. In a `text` part of a
/// content list these letters are plain text.
/// `system` beside the turns is the system turn; `weight` 0 or `train` false leaves an assistant
/// turn out of the loss. A record is refused for a key that would change what is learned and that
/// nothing reads; other keys that nothing reads are named in `unread_keys`.
/// errors: Refusal `line_too_long`, `bad_json`, `bad_utf8`, `bad_form`, `bad_field`, `bad_role`,
///         `bad_text`, `unread_key`, `empty_text`, `no_answer`, `placeholder_count`,
///         `media_in_answer`, `video_file`
[[nodiscard]] Result<ParsedRecord> parse_record(std::string_view line, const std::string& key);

}  // namespace tributary::data
