#include "data/record/unread_keys.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "core/nearest_name.h"

namespace tributary::data {
namespace {

using Names = std::span<const std::string_view>;

/// A key that changes what a record teaches, and that nothing here reads.
struct RefusedKey {
  std::string_view name;
  std::string_view reason;
};

constexpr std::string_view kToolCalls = "tool calls are not trained; leave the record or it out";
constexpr std::string_view kPreferences =
    "it is half of a pair; leave it out to train on the turns alone";
constexpr std::string_view kRatings = "answers that are rated one by one are not trained";
constexpr std::string_view kThinking =
    "thinking is not trained; write it into the answer or leave it out";
constexpr std::string_view kBoxes =
    "boxes are read as `objects` beside turns alone; or write their coordinates into the text";
constexpr std::string_view kPixels = "set data.max_pixels for the run, or resize the file";
constexpr std::string_view kFrames = "name the frames that are to be read";
constexpr std::string_view kInRecord =
    "name it in `images`, `videos` or `audios` of the record, or in a part of `content`";
constexpr std::string_view kDataUrl = "write a data URL in place of the path";

constexpr RefusedKey kRefusedInRecord[] = {
    {"tools", kToolCalls},
    {"functions", kToolCalls},
    {"chosen", kPreferences},
    {"rejected", kPreferences},
    {"rejected_response", kPreferences},
    {"rejected_messages", kPreferences},
    {"rejected_images", "both answers are to the same pictures"},
    {"kto_tag", kRatings},
    {"reasoning_content", kThinking},
    {"enable_thinking", kThinking},
    {"chat_template_kwargs", "the chat template has no options"},
    {"objects", kBoxes},
    {"bbox", kBoxes},
    {"weight", "records have no weight; set `weight` of the source, or of a turn"},
    {"min_pixels", "set data.min_pixels for the run"},
    {"max_pixels", kPixels},
    {"resized_height", kPixels},
    {"resized_width", kPixels},
    {"nframes", kFrames},
    {"video_fps", "write `fps`"},
};
constexpr RefusedKey kRefusedInTurn[] = {
    {"tool_calls", kToolCalls},    {"tool_call_id", kToolCalls},
    {"function_call", kToolCalls}, {"reasoning_content", kThinking},
    {"thinking", kThinking},       {"loss_scale", "write `weight` 0 or 1"},
    {"image", kInRecord},          {"images", kInRecord},
    {"video", kInRecord},          {"videos", kInRecord},
    {"audio", kInRecord},          {"audios", kInRecord},
};
constexpr RefusedKey kRefusedInPart[] = {
    {"min_pixels", "set data.min_pixels for the run"},
    {"max_pixels", kPixels},
    {"total_pixels", kPixels},
    {"resized_height", kPixels},
    {"resized_width", kPixels},
    {"detail", kPixels},
    {"nframes", kFrames},
    {"video_start", kFrames},
    {"video_end", kFrames},
    {"url", "write `image`"},
    {"base64", "write a data URL in `image`"},
};
constexpr RefusedKey kRefusedInImage[] = {
    {"detail", kPixels},        {"min_pixels", "set data.min_pixels for the run"},
    {"max_pixels", kPixels},    {"resized_height", kPixels},
    {"resized_width", kPixels}, {"bytes", kDataUrl},
    {"base64", kDataUrl},       {"url", "write `path`"},
    {"path", "write `url`"},
};

constexpr std::string_view kReadInRecord[] = {
    "messages", "conversations", "conversation", "system", "image",   "images", "video",
    "videos",   "fps",           "audio",        "audios", "answers", "objects"};
constexpr std::string_view kReadInAlpaca[] = {
    "instruction", "input",  "output", "history", "system", "image",   "images",
    "video",       "videos", "fps",    "audio",   "audios", "answers", "objects"};
constexpr std::string_view kReadInQuery[] = {
    "query",  "prompt",     "question", "response", "answer", "history",
    "system", "completion", "image",    "images",   "video",  "videos",
    "fps",    "audio",      "audios",   "answers",  "objects"};
constexpr std::string_view kReadInPreference[] = {"prompt",
                                                  "question",
                                                  "query",
                                                  "instruction",
                                                  "input",
                                                  "history",
                                                  "system",
                                                  "messages",
                                                  "conversations",
                                                  "conversation",
                                                  "chosen",
                                                  "chosen_messages",
                                                  "response",
                                                  "rejected",
                                                  "rejected_response",
                                                  "rejected_messages",
                                                  "image",
                                                  "images",
                                                  "video",
                                                  "videos",
                                                  "fps",
                                                  "audio",
                                                  "audios",
                                                  "answers",
                                                  "objects"};
constexpr std::string_view kReadInCaption[] = {"image", "images", "file_name", "caption", "text",
                                               "label", "system", "answers",   "objects"};
constexpr std::string_view kReadInObjects[] = {"ref", "bbox", "bbox_type", "image_id"};
constexpr std::string_view kReadInDocument[] = {"text",       "texts", "images", "text_list",
                                                "image_info", "image", "video",  "videos",
                                                "fps",        "audio", "audios"};
constexpr std::string_view kReadInMessage[] = {"role",        "content", "weight",
                                               "loss_weight", "train",   "loss"};
constexpr std::string_view kReadInSpeech[] = {"from",        "value", "weight",
                                              "loss_weight", "train", "loss"};
constexpr std::string_view kReadInRound[] = {"human", "assistant"};
constexpr std::string_view kReadInText[] = {"type", "text", "value"};
constexpr std::string_view kReadInImagePart[] = {"type", "image", "path"};
constexpr std::string_view kReadInImageUrlPart[] = {"type", "image_url", "value"};
constexpr std::string_view kReadInVideo[] = {"type", "video", "video_url", "fps", "value"};
constexpr std::string_view kReadInAudio[] = {"type", "audio", "audio_url", "path", "value"};
constexpr std::string_view kReadInImageUrl[] = {"url"};
constexpr std::string_view kReadInListedImage[] = {"path"};
constexpr std::string_view kReadInAnyPart[] = {"text",      "image", "path",  "image_url", "video",
                                               "video_url", "fps",   "audio", "audio_url", "value"};

struct Keys {
  Names read;
  std::span<const RefusedKey> refused;
};

Keys keys_of(RecordObject kind) {
  switch (kind) {
    case RecordObject::kRecord:
      return {kReadInRecord, kRefusedInRecord};
    case RecordObject::kAlpaca:
      return {kReadInAlpaca, kRefusedInRecord};
    case RecordObject::kQuery:
      return {kReadInQuery, kRefusedInRecord};
    case RecordObject::kCaption:
      return {kReadInCaption, kRefusedInRecord};
    case RecordObject::kPreference:
      return {kReadInPreference, kRefusedInRecord};
    case RecordObject::kDocument:
      return {kReadInDocument, kRefusedInRecord};
    case RecordObject::kMessage:
      return {kReadInMessage, kRefusedInTurn};
    case RecordObject::kSpeech:
      return {kReadInSpeech, kRefusedInTurn};
    case RecordObject::kRound:
      return {kReadInRound, kRefusedInTurn};
    case RecordObject::kTextPart:
      return {kReadInText, kRefusedInPart};
    case RecordObject::kImagePart:
      return {kReadInImagePart, kRefusedInPart};
    case RecordObject::kImageUrlPart:
      return {kReadInImageUrlPart, kRefusedInPart};
    case RecordObject::kVideoPart:
      return {kReadInVideo, kRefusedInPart};
    case RecordObject::kAudioPart:
      return {kReadInAudio, kRefusedInPart};
    case RecordObject::kImageUrl:
      return {kReadInImageUrl, kRefusedInImage};
    case RecordObject::kListedImage:
      return {kReadInListedImage, kRefusedInImage};
    case RecordObject::kObjects:
      return {kReadInObjects, {}};
  }
  return {};
}

bool is_part(RecordObject kind) {
  return kind == RecordObject::kTextPart || kind == RecordObject::kImagePart ||
         kind == RecordObject::kImageUrlPart || kind == RecordObject::kVideoPart ||
         kind == RecordObject::kAudioPart;
}

bool contains(Names names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The key that `name` probably misspells: it is read, and one letter differs or two changed
/// places. Short names are near too many keys.
std::string find_slip(const std::string& name, Names read) {
  constexpr std::size_t kShortest = 4;
  if (name.size() < kShortest) return "";
  for (std::size_t i = 0; i + 1 < name.size(); ++i) {
    std::string swapped = name;
    std::swap(swapped[i], swapped[i + 1]);
    if (contains(read, swapped)) return swapped;
  }
  const std::vector<std::string> known(read.begin(), read.end());
  return nearest_name(name, known, /*max_edits=*/1);
}

std::string why_refused(const std::string& name, const Json& value, RecordObject kind) {
  const Keys keys = keys_of(kind);
  if (name == "detail" && value == "auto") return "";
  // A class beside a chat changes nothing, but true and false say whether to learn it (KTO).
  if (name == "label" && value.is_boolean()) return std::string(kRatings);
  for (const RefusedKey& key : keys.refused)
    if (key.name == name) return std::string(key.reason);
  if (is_part(kind) && contains(kReadInAnyPart, name))
    return "a part of this `type` has no such key";
  const std::string slip = find_slip(name, keys.read);
  return slip.empty() ? "" : str("did you mean `", slip, "`?");
}

/// A name for a message; odd ones are put in quotes.
std::string shown(const std::string& name) {
  const bool is_plain =
      !name.empty() && name.size() <= 80 && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '-';
      });
  return is_plain ? name : escaped(name.substr(0, 80));
}

/// messages[0].content[1] -> messages[].content[]
std::string without_numbers(const std::string& where) {
  std::string text;
  bool in_brackets = false;
  for (const char c : where) {
    in_brackets = c != ']' && (in_brackets || c == '[');
    if (!in_brackets || c == '[') text += c;
  }
  return text;
}

struct OtherForm {
  std::string_view key;
  std::string_view what;
};
constexpr OtherForm kOtherForms[] = {
    {"chosen", "a preference without its `rejected`"},
    {"instruction", "the Alpaca form without its `output`"},
    {"query", "a question without its answer"},
    {"prompt", "a question without its answer"},
    {"question", "a question without its answer"},
    {"file_name", "a picture without its `text`"},
    {"image", "a picture without its `text`"},
};

}  // namespace

bool says_nothing(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().empty() || value == "[]";
  return value.empty();
}

std::optional<Refusal> find_unread_keys(const Json& object, RecordObject kind,
                                        const std::string& where,
                                        std::vector<std::string>& unread) {
  const Names read = keys_of(kind).read;
  const bool is_record = where == "record";
  for (const auto& [name, value] : object.items()) {
    if (contains(read, name) || says_nothing(value)) continue;
    const std::string reason = why_refused(name, value, kind);
    if (!reason.empty())
      return Refusal{"unread_key",
                     str(is_record ? "record" : where, ".", shown(name), " is not read: ", reason)};
    const std::string place =
        is_record ? shown(name) : str(without_numbers(where), ".", shown(name));
    if (std::find(unread.begin(), unread.end(), place) == unread.end()) unread.push_back(place);
  }
  return std::nullopt;
}

std::string describe_other_form(const Json& root) {
  constexpr std::size_t kMaxShown = 8;
  std::string found;
  std::size_t shown_keys = 0;
  for (const auto& [name, value] : root.items()) {
    if (shown_keys++ == kMaxShown) break;
    found += str(found.empty() ? "" : ", ", shown(name));
  }
  if (root.size() > kMaxShown) found += ", ...";
  std::string text = found.empty() ? "found no key" : "found " + found;
  for (const OtherForm& form : kOtherForms)
    if (root.contains(form.key))
      return str(text, ": ", form.what, "; docs/formats/data.md shows the forms");
  return text;
}

}  // namespace tributary::data
