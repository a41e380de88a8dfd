#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/result.h"
#include "data/record/conversation.h"

namespace tributary::data {

class MediaFiles;

/// A clip: a list of frame pictures, or a video file.
struct Clip {
  std::vector<std::string> frames;  // paths or data URLs; empty: of a file
  double fps = 2;                   // frames per second of `frames`, or to take of the file
  std::string file = {};            // path or data URL of a video

  friend bool operator==(const Clip&, const Clip&) = default;
};

/// A box or a point in a picture of a record.
struct Box {
  std::vector<double> corners;  // x1 y1 x2 y2, ascending; or x y
  std::size_t image = 0;        // of the record's images
  bool is_relative = false;     // in sides of the picture; else in pixels of its file

  friend bool operator==(const Box&, const Box&) = default;
};

/// One record of a data set, checked but with its pictures still in their files.
struct Record {
  std::string key;  // file:line
  std::vector<Turn> turns;
  // The turns with the worse answer of a pair, where `turns` has the better one; else empty.
  std::vector<Turn> rejected = {};
  bool is_document = false;         // the one turn is learned as it stands, without a chat template
  std::vector<std::string> images;  // paths or data URLs; a MediaReference indexes this list
  std::vector<Clip> clips;
  std::vector<std::string> sounds;        // paths or data URLs
  std::vector<std::string> object_names;  // an ObjectReference indexes these two lists
  std::vector<Box> boxes;
  // Accepted answers to the last question; empty: the last one.
  std::vector<std::string> references;
  const MediaFiles* folder = nullptr;  // where paths start; null only if all are data URLs
  std::shared_ptr<const MediaFiles> inside = {};  // pictures in the container; they come first
  std::vector<std::string> unread_keys;           // keys without effect: `id`, `messages[].name`
};

/// How a record is written; docs/formats/data.md shows each.
enum class RecordForm {
  kMessages,
  kConversations,
  kAlpaca,
  kQuery,
  kInterleaved,
  kCaption,
  kText,
  kPreference,
};

struct RecordFormName {
  RecordForm form;
  std::string_view name;  // in a configuration and in messages
};
inline constexpr std::array kRecordForms{
    RecordFormName{RecordForm::kMessages, "messages"},
    RecordFormName{RecordForm::kConversations, "conversations"},
    RecordFormName{RecordForm::kAlpaca, "alpaca"},
    RecordFormName{RecordForm::kQuery, "query"},
    RecordFormName{RecordForm::kInterleaved, "interleaved"},
    RecordFormName{RecordForm::kCaption, "caption"},
    RecordFormName{RecordForm::kText, "text"},
    RecordFormName{RecordForm::kPreference, "preference"},
};
[[nodiscard]] std::string_view name_of(RecordForm form);
/// The form of that name; null when it is none, as for `auto`.
[[nodiscard]] std::optional<RecordForm> find_form(std::string_view name);

/// A record, and the form in which it is written.
struct ParsedRecord {
  RecordForm form = RecordForm::kMessages;
  Record record;
};

/// Whether records hold one answer to learn, or two to compare.
enum class Answers { kAny, kOne, kPair };

/// What a source says about its records.
struct RecordOptions {
  std::optional<RecordForm> form = {};  // null: by the keys of each record
  std::string question = {};            // before the caption of a picture; empty: captions are
                                        // refused
  Answers answers = Answers::kAny;      // other records are refused
};

/// Reads a record in any of the forms.
///
/// Media: parts `image_url`, `image`, `video_url`, `video`, `audio_url`, `audio` of a content list;
/// or
/// `<image>`,
/// `<video>` and `<audio>` in the text, taken in order from the lists `image`/`images`,
/// `video`/`videos` and `audio`/`audios`. In a `text` part of a
/// content list these letters are plain text. In forms of columns, media that no text names stand
/// before the first question.
/// `objects` lists names and boxes, which `<ref-object>` and `<bbox>` in a text take in order.
/// `answers` lists the references that a held-out answer is judged by.
/// `system` beside the turns is the system turn; `weight` 0 or `train` false leaves an assistant
/// turn out of the loss. A record is refused for a key that would change what is learned and that
/// nothing reads; other keys that nothing reads are named in `unread_keys`.
/// errors: Refusal `bad_form`, `bad_field`, `bad_role`, `bad_text`, `unread_key`, `empty_text`,
///         `no_answer`, `no_question`, `placeholder_count`, `media_in_answer`,
///         `preferences`, `no_pair`, `no_prompt`
[[nodiscard]] Result<ParsedRecord> read_record(const Json& json, const std::string& key,
                                               const RecordOptions& options = {});

/// Reads one line of JSON.
///
/// errors: Refusal `line_too_long`, `bad_json`, `bad_utf8`
[[nodiscard]] Result<Json> parse_line(std::string_view line);

/// parse_line and read_record.
[[nodiscard]] Result<ParsedRecord> parse_record(std::string_view line, const std::string& key,
                                                const RecordOptions& options = {});

}  // namespace tributary::data
