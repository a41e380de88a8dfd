#include "data/record/record.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/json.h"
#include "data/record/unread_keys.h"

namespace tributary::data {
namespace {

constexpr std::size_t kMaxRecordBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxFrames = 768;
constexpr std::size_t kMaxItems = 1024;
constexpr double kMaxFps = 1000;
constexpr std::string_view kImageWord = "<image>";
constexpr std::string_view kVideoWord = "<video>";

/// Thrown to leave the reading of one record; caught only in parse_record.
struct Refused {
  Refusal refusal;
};
[[noreturn]] void refuse(std::string code, std::string reason) {
  throw Refused{{std::move(code), std::move(reason)}};
}

const Json* find(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_of(const Json& value, const std::string& where) {
  if (!value.is_string())
    refuse("bad_field", str(where, " is of type ", value.type_name(), ", expected string"));
  auto text = value.get<std::string>();
  if (text.find('\0') != std::string::npos) refuse("bad_text", where + " holds a NUL character");
  return text;
}

const Json& member(const Json& object, const char* key, const std::string& where) {
  if (!object.is_object())
    refuse("bad_field", str(where, " is of type ", object.type_name(), ", expected object"));
  const Json* value = find(object, key);
  if (value == nullptr) refuse("bad_field", str(where, ".", key, " is missing"));
  return *value;
}

double fps_of(const Json& object, const std::string& where, double otherwise) {
  const Json* fps = find(object, "fps");
  if (fps == nullptr) return otherwise;
  if (!fps->is_number()) refuse("bad_field", where + ".fps is not a number");
  const double value = fps->get<double>();
  if (!(value > 0 && value <= kMaxFps))
    refuse("bad_field", str(where, ".fps = ", value, ", expected above 0 and at most ", kMaxFps));
  return value;
}

void refuse_unread(const Json& object, RecordObject kind, const std::string& where,
                   Record& record) {
  if (auto refusal = find_unread_keys(object, kind, where, record.unread_keys))
    throw Refused{*std::move(refusal)};
}

std::vector<std::string> paths_of(const Json& value, const std::string& where, Record& record) {
  if (value.is_string()) return {text_of(value, where)};
  if (!value.is_array())
    refuse("bad_field", str(where, " is of type ", value.type_name(), ", expected string or list"));
  std::vector<std::string> paths;
  for (const Json& entry : value) {
    const std::string place = str(where, "[", paths.size(), "]");
    // Some writers wrap each path: {"path": "a.png"}.
    if (entry.is_object()) refuse_unread(entry, RecordObject::kListedImage, place, record);
    paths.push_back(text_of(entry.is_object() ? member(entry, "path", place) : entry, place));
  }
  return paths;
}

Clip clip_of(const Json& value, const std::string& where, double fps, Record& record) {
  if (value.is_string())
    refuse("video_file", str(where, " names a file; expected a list of frame pictures"));
  Clip clip{.frames = paths_of(value, where, record), .fps = fps};
  if (clip.frames.empty() || clip.frames.size() > kMaxFrames)
    refuse("bad_field",
           str(where, " has ", clip.frames.size(), " frames, expected 1 to ", kMaxFrames));
  return clip;
}

bool is_blank(const std::string& text) {
  return text.find_first_not_of(" \t\r\n") == std::string::npos;
}

Role role_of(const std::string& name, const std::string& where) {
  if (name == "user" || name == "human") return Role::kUser;
  if (name == "assistant" || name == "gpt") return Role::kAssistant;
  if (name == "system") return Role::kSystem;
  refuse("bad_role",
         str(where, " = ", escaped(name), ", expected system, user, human, assistant or gpt"));
}

/// Whether a turn counts in the loss, by its `weight` or `train`.
bool is_learned(const Json& turn, Role role, const std::string& where) {
  const Json* weight = find(turn, "weight");
  const Json* train = find(turn, "train");
  if (weight != nullptr && *weight != 0 && *weight != 1)
    refuse("bad_field", str(where, ".weight = ", escaped(weight->dump()), ", expected 0 or 1"));
  if (train != nullptr && !train->is_boolean())
    refuse("bad_field",
           str(where, ".train = ", escaped(train->dump()), ", expected true or false"));
  const bool by_weight = weight == nullptr || *weight == 1;
  const bool by_train = train == nullptr || train->get<bool>();
  if (weight != nullptr && train != nullptr && by_weight != by_train)
    refuse("bad_field", where + " has a weight and a train that contradict each other");
  const bool asks_for_loss = (weight != nullptr && by_weight) || (train != nullptr && by_train);
  if (role != Role::kAssistant && asks_for_loss)
    refuse("bad_field", where + " is to be learned and is no assistant turn");
  return by_weight && by_train;
}

/// Media that the record lists beside its turns, handed out in order of appearance.
class ListedMedia {
 public:
  ListedMedia(const Json& root, Record& record) : record_(record) {
    for (const char* key : {"image", "images"})
      if (const Json* value = find(root, key))
        for (std::string& path : paths_of(*value, key, record)) images_.push_back(std::move(path));
    const double fps = fps_of(root, "record", Clip{}.fps);
    for (const char* key : {"video", "videos"})
      if (const Json* value = find(root, key)) add_clips(*value, key, fps);
  }

  MediaReference take_image() {
    ++images_asked_;
    if (images_asked_ <= images_.size()) record_.images.push_back(images_[images_asked_ - 1]);
    return {Modality::kImage, static_cast<int>(record_.images.size()) - 1};
  }
  MediaReference take_clip() {
    ++clips_asked_;
    if (clips_asked_ <= clips_.size()) record_.clips.push_back(clips_[clips_asked_ - 1]);
    return {Modality::kVideo, static_cast<int>(record_.clips.size()) - 1};
  }

  /// Checks that there are as many placeholders as listed items.
  void check_counts() const {
    if (images_asked_ != images_.size())
      refuse("placeholder_count",
             str(images_asked_, " image placeholders, ", images_.size(), " images in the record"));
    if (clips_asked_ != clips_.size())
      refuse("placeholder_count",
             str(clips_asked_, " video placeholders, ", clips_.size(), " clips in the record"));
  }

 private:
  /// `video` is one clip (a list of frames) or, like `videos`, a list of clips.
  void add_clips(const Json& value, const std::string& key, double fps) {
    const bool nested = value.is_array() && !value.empty() && value.front().is_array();
    if (key == "videos" && !nested && !(value.is_array() && value.empty()))
      refuse("video_file", "videos must be a list of lists of frame pictures");
    if (!nested && key == "video") return clips_.push_back(clip_of(value, key, fps, record_));
    for (std::size_t i = 0; i < value.size(); ++i)
      clips_.push_back(clip_of(value[i], str(key, "[", i, "]"), fps, record_));
  }

  Record& record_;
  std::vector<std::string> images_;
  std::vector<Clip> clips_;
  std::size_t images_asked_ = 0;
  std::size_t clips_asked_ = 0;
};

/// Cuts a text at its placeholders.
std::vector<Part> split_text(const std::string& text, ListedMedia& media) {
  std::vector<Part> parts;
  std::size_t from = 0;
  for (;;) {
    const std::size_t image = text.find(kImageWord, from);
    const std::size_t video = text.find(kVideoWord, from);
    const std::size_t at = std::min(image, video);
    const std::string before = text.substr(from, at - from);
    if (!before.empty()) parts.emplace_back(before);
    if (at == std::string::npos) return parts;
    if (at == image) {
      parts.emplace_back(media.take_image());
    } else {
      parts.emplace_back(media.take_clip());
    }
    from = at + (at == image ? kImageWord : kVideoWord).size();
  }
}

/// Reads the picture that a part names itself, or takes the next one of the record's list.
MediaReference read_image_part(const Json& part, const std::string& type, const std::string& where,
                               ListedMedia& media, Record& record) {
  const Json* source = find(part, type.c_str());
  const Json* path = type == "image" ? find(part, "path") : nullptr;
  if (source != nullptr && path != nullptr)
    refuse("bad_field", where + " names a picture twice, as `image` and as `path`");
  if (source == nullptr) source = path;
  if (source == nullptr && type == "image") return media.take_image();
  if (source == nullptr) refuse("bad_field", where + ".image_url is missing");
  const std::string place = where + "." + type;
  if (source->is_object()) refuse_unread(*source, RecordObject::kImageUrl, place, record);
  record.images.push_back(
      text_of(source->is_object() ? member(*source, "url", place) : *source, place));
  return {Modality::kImage, static_cast<int>(record.images.size()) - 1};
}

/// Reads one entry of a content list.
std::vector<Part> read_part(const Json& part, const std::string& where, ListedMedia& media,
                            Record& record) {
  const std::string type = text_of(member(part, "type", where), where + ".type");
  if (type == "text") {
    refuse_unread(part, RecordObject::kTextPart, where, record);
    const std::string text = text_of(member(part, "text", where), where + ".text");
    return text.empty() ? std::vector<Part>{} : std::vector<Part>{text};
  }
  if (type == "image_url" || type == "image") {
    refuse_unread(part, type == "image" ? RecordObject::kImagePart : RecordObject::kImageUrlPart,
                  where, record);
    return {read_image_part(part, type, where, media, record)};
  }
  if (type == "video") {
    refuse_unread(part, RecordObject::kVideoPart, where, record);
    const Json* source = find(part, "video");
    if (source == nullptr) return {media.take_clip()};
    record.clips.push_back(
        clip_of(*source, where + ".video", fps_of(part, where, Clip{}.fps), record));
    return {MediaReference{Modality::kVideo, static_cast<int>(record.clips.size()) - 1}};
  }
  refuse("bad_field",
         str(where, ".type = ", escaped(type), ", expected text, image_url, image or video"));
}

Turn read_message(const Json& message, const std::string& where, ListedMedia& media,
                  Record& record) {
  Turn turn;
  turn.role = role_of(text_of(member(message, "role", where), where + ".role"), where + ".role");
  refuse_unread(message, RecordObject::kMessage, where, record);
  turn.is_learned = is_learned(message, turn.role, where);
  const Json& content = member(message, "content", where);
  if (content.is_string()) {
    const std::string text = text_of(content, where + ".content");
    turn.parts = split_text(text, media);
    return turn;
  }
  if (!content.is_array())
    refuse("bad_field",
           str(where, ".content is of type ", content.type_name(), ", expected string or list"));
  for (std::size_t i = 0; i < content.size(); ++i)
    for (Part& part : read_part(content[i], str(where, ".content[", i, "]"), media, record))
      turn.parts.push_back(std::move(part));
  return turn;
}

Turn read_speech(const Json& speech, const std::string& where, ListedMedia& media, Record& record) {
  Turn turn;
  turn.role = role_of(text_of(member(speech, "from", where), where + ".from"), where + ".from");
  refuse_unread(speech, RecordObject::kSpeech, where, record);
  turn.is_learned = is_learned(speech, turn.role, where);
  turn.parts = split_text(text_of(member(speech, "value", where), where + ".value"), media);
  return turn;
}

void check_turns(const std::vector<Turn>& turns, const std::string& name) {
  bool has_answer = false;
  bool has_learned = false;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const std::string where = str(name, "[", i, "]");
    const bool has_media =
        std::any_of(turns[i].parts.begin(), turns[i].parts.end(),
                    [](const Part& part) { return std::holds_alternative<MediaReference>(part); });
    const bool has_text =
        std::any_of(turns[i].parts.begin(), turns[i].parts.end(), [](const Part& part) {
          const auto* text = std::get_if<std::string>(&part);
          return text != nullptr && !is_blank(*text);
        });
    if (turns[i].role == Role::kSystem) {
      if (i != 0) refuse("bad_role", where + " is a system turn that is not the first");
      if (has_media) refuse("bad_field", where + " is a system turn with an image or clip");
      continue;
    }
    if (!has_text && !has_media) refuse("empty_text", where + " has neither text nor image");
    if (turns[i].role != Role::kAssistant) continue;
    if (has_media) refuse("media_in_answer", where + " is an assistant turn with an image or clip");
    has_answer = true;
    has_learned = has_learned || turns[i].is_learned;
  }
  if (has_answer && !has_learned)
    refuse("no_answer", name + " has no assistant turn that counts: all have weight 0");
  if (!has_answer) refuse("no_answer", name + " has no assistant turn: nothing to learn");
}

ParsedRecord read_record(const Json& root, const std::string& key) {
  if (!root.is_object())
    refuse("bad_form", str("line holds a ", root.type_name(), ", expected an object"));
  const Json* messages = find(root, "messages");
  const Json* conversations = find(root, "conversations");
  if ((messages == nullptr) == (conversations == nullptr))
    refuse("bad_form", messages == nullptr
                           ? "neither messages nor conversations; " + describe_other_form(root)
                           : "both messages and conversations");
  ParsedRecord parsed;
  parsed.form = messages != nullptr ? RecordForm::kMessages : RecordForm::kConversations;
  parsed.record.key = key;
  const std::string name = messages != nullptr ? "messages" : "conversations";
  const Json& list = messages != nullptr ? *messages : *conversations;
  if (!list.is_array())
    refuse("bad_field", str(name, " is of type ", list.type_name(), ", expected list"));
  refuse_unread(root, RecordObject::kRecord, "record", parsed.record);
  if (const Json* system = find(root, "system"); system != nullptr && !says_nothing(*system))
    parsed.record.turns.push_back({Role::kSystem, {text_of(*system, "system")}});
  ListedMedia media(root, parsed.record);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string where = str(name, "[", i, "]");
    parsed.record.turns.push_back(messages != nullptr
                                      ? read_message(list[i], where, media, parsed.record)
                                      : read_speech(list[i], where, media, parsed.record));
  }
  media.check_counts();
  check_turns(parsed.record.turns, name);
  if (parsed.record.images.size() + parsed.record.clips.size() > kMaxItems)
    refuse("bad_field", str(parsed.record.images.size() + parsed.record.clips.size(),
                            " images and clips, limit ", kMaxItems));
  return parsed;
}

}  // namespace

Result<ParsedRecord> parse_record(std::string_view line, const std::string& key) {
  if (line.size() > kMaxRecordBytes)
    return Refusal{"line_too_long", str(line.size(), " bytes, limit ", kMaxRecordBytes)};
  const Result<Json> root = try_parse_json(line);
  if (!root) {
    const Refusal& refusal = root.refusal();
    return Refusal{refusal.code == "not_utf8" ? "bad_utf8" : "bad_json",
                   "line is not valid JSON: " + refusal.reason};
  }
  try {
    return read_record(root.value(), key);
  } catch (const Refused& refused) {
    return refused.refusal;
  }
}

}  // namespace tributary::data
