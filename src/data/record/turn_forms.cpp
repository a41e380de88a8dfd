#include "data/record/turn_forms.h"

#include <nlohmann/json.hpp>

#include "data/record/unread_keys.h"

namespace tributary::data {
namespace {

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

/// Reads the sound that a part names itself, or takes the next one of the record's list.
MediaReference read_sound_part(const Json& part, const std::string& where, ListedMedia& media,
                               Record& record) {
  const Json* source = nullptr;
  std::string key;
  for (const char* name : {"audio", "audio_url", "path"}) {
    const Json* found = find(part, name);
    if (found == nullptr) continue;
    if (source != nullptr) refuse("bad_field", where + " names a sound twice");
    source = found;
    key = name;
  }
  if (source == nullptr) return media.take_sound();
  const std::string place = where + "." + key;
  if (source->is_object()) refuse_unread(*source, RecordObject::kImageUrl, place, record);
  record.sounds.push_back(
      text_of(source->is_object() ? member(*source, "url", place) : *source, place));
  return {Modality::kAudio, static_cast<int>(record.sounds.size()) - 1};
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
  if (type == "audio" || type == "audio_url") {
    refuse_unread(part, RecordObject::kAudioPart, where, record);
    return {read_sound_part(part, where, media, record)};
  }
  refuse("bad_field", str(where, ".type = ", escaped(type),
                          ", expected text, image_url, image, video, audio_url or audio"));
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

void read_list(const Json& root, const char* name, Record& record,
               Turn (*read)(const Json&, const std::string&, ListedMedia&, Record&)) {
  const Json& list = member(root, name, "record");
  if (!list.is_array())
    refuse("bad_field", str(name, " is of type ", list.type_name(), ", expected list"));
  refuse_unread(root, RecordObject::kRecord, "record", record);
  add_system(root, record);
  ListedMedia media(root, record);
  for (std::size_t i = 0; i < list.size(); ++i)
    record.turns.push_back(read(list[i], str(name, "[", i, "]"), media, record));
  media.check_counts();
  check_turns(record.turns, name);
}

}  // namespace

void add_system(const Json& root, Record& record) {
  if (const Json* system = find(root, "system"); system != nullptr && !says_nothing(*system))
    record.turns.push_back({Role::kSystem, {text_of(*system, "system")}});
}

Turn read_turn(const Json& turn, const std::string& where, ListedMedia& media, Record& record) {
  return find(turn, "from") != nullptr ? read_speech(turn, where, media, record)
                                       : read_message(turn, where, media, record);
}

void add_messages(const Json& list, const std::string& name, ListedMedia& media, Record& record) {
  for (std::size_t i = 0; i < list.size(); ++i)
    record.turns.push_back(read_message(list[i], str(name, "[", i, "]"), media, record));
}

void read_messages(const Json& root, const RecordOptions&, Record& record) {
  read_list(root, "messages", record, read_message);
}

void read_conversations(const Json& root, const RecordOptions&, Record& record) {
  read_list(root, "conversations", record, read_speech);
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
          return std::holds_alternative<ObjectReference>(part) ||
                 (text != nullptr && !is_blank(*text));
        });
    if (turns[i].role == Role::kSystem) {
      if (i != 0) refuse("bad_role", where + " is a system turn that is not the first");
      if (has_media) refuse("bad_field", where + " is a system turn with media");
      continue;
    }
    if (!has_text && !has_media) refuse("empty_text", where + " has neither text nor image");
    if (turns[i].role != Role::kAssistant) continue;
    if (has_media) refuse("media_in_answer", where + " is an assistant turn with media");
    has_answer = true;
    has_learned = has_learned || turns[i].is_learned;
  }
  if (has_answer && !has_learned)
    refuse("no_answer", name + " has no assistant turn that counts: all have weight 0");
  if (!has_answer) refuse("no_answer", name + " has no assistant turn: nothing to learn");
}

}  // namespace tributary::data
