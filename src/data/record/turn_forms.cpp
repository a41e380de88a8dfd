#include "data/record/turn_forms.h"

#include <nlohmann/json.hpp>

#include "data/record/column_forms.h"
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

/// A key that says whether a turn counts in the loss.
struct LossKey {
  std::string_view name;
  bool is_weight;  // 0 or 1; else false or true
};
constexpr LossKey kLossKeys[] = {
    {"weight", true}, {"loss_weight", true}, {"train", false}, {"loss", false}};

bool is_learned(const Json& turn, Role role, const std::string& where) {
  const LossKey* first = nullptr;
  bool is_learned = true;
  for (const LossKey& key : kLossKeys) {
    const Json* value = find(turn, key.name);
    if (value == nullptr) continue;
    if (key.is_weight ? *value != 0 && *value != 1 : !value->is_boolean())
      refuse("bad_field", str(where, ".", key.name, " = ", escaped(value->dump()), ", expected ",
                              key.is_weight ? "0 or 1" : "true or false"));
    const bool says = key.is_weight ? *value == 1 : value->get<bool>();
    if (first != nullptr && says != is_learned)
      refuse("bad_field", str(where, " has a ", first->name, " and a ", key.name,
                              " that contradict each other"));
    if (role != Role::kAssistant && says)
      refuse("bad_field", where + " is to be learned and is no assistant turn");
    first = &key;
    is_learned = says;
  }
  return is_learned;
}

/// Reads the picture that a part names itself, or takes the next one of the record's list.
MediaReference read_image_part(const Json& part, const std::string& type, const std::string& where,
                               ListedMedia& media, Record& record) {
  const char* other = type == "image" ? "path" : "value";
  const Json* source = find(part, type.c_str());
  const Json* second = find(part, other);
  if (source != nullptr && second != nullptr)
    refuse("bad_field", str(where, " names a picture twice, as `", type, "` and as `", other, "`"));
  if (source == nullptr) source = second;
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
  for (const char* name : {"audio", "audio_url", "path", "value"}) {
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

/// Reads the clip that a part names itself, or takes the next one of the record's list.
MediaReference read_clip_part(const Json& part, const std::string& where, ListedMedia& media,
                              Record& record) {
  const Json* source = nullptr;
  std::string key;
  for (const char* name : {"video", "video_url", "value"}) {
    const Json* found = find(part, name);
    if (found == nullptr) continue;
    if (source != nullptr)
      refuse("bad_field", str(where, " names a clip twice, as `", key, "` and as `", name, "`"));
    source = found;
    key = name;
  }
  if (source == nullptr) return media.take_clip();
  const std::string place = where + "." + key;
  if (source->is_object() && key == "video_url") {
    refuse_unread(*source, RecordObject::kImageUrl, place, record);
    source = &member(*source, "url", place);
  }
  record.clips.push_back(clip_of(*source, place, fps_of(part, where, Clip{}.fps), record));
  return {Modality::kVideo, static_cast<int>(record.clips.size()) - 1};
}

/// Reads one entry of a content list.
std::vector<Part> read_part(const Json& part, const std::string& where, ListedMedia& media,
                            Record& record) {
  const std::string type = text_of(member(part, "type", where), where + ".type");
  if (type == "text") {
    refuse_unread(part, RecordObject::kTextPart, where, record);
    const char* key =
        find(part, "text") == nullptr && find(part, "value") != nullptr ? "value" : "text";
    const std::string text = text_of(member(part, key, where), str(where, ".", key));
    return text.empty() ? std::vector<Part>{} : std::vector<Part>{text};
  }
  if (type == "image_url" || type == "image") {
    refuse_unread(part, type == "image" ? RecordObject::kImagePart : RecordObject::kImageUrlPart,
                  where, record);
    return {read_image_part(part, type, where, media, record)};
  }
  if (type == "video" || type == "video_url") {
    refuse_unread(part, RecordObject::kVideoPart, where, record);
    return {read_clip_part(part, where, media, record)};
  }
  if (type == "audio" || type == "audio_url") {
    refuse_unread(part, RecordObject::kAudioPart, where, record);
    return {read_sound_part(part, where, media, record)};
  }
  refuse("bad_field",
         str(where, ".type = ", escaped(type),
             ", expected text, image_url, image, video_url, video, audio_url or audio"));
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

void add_message(const Json& message, const std::string& where, ListedMedia& media,
                 Record& record) {
  record.turns.push_back(read_message(message, where, media, record));
}

/// Adds a turn, or a question with its answer: {"human": ..., "assistant": ...}.
void add_speech(const Json& speech, const std::string& where, ListedMedia& media, Record& record) {
  if (!speech.is_object() || find(speech, "human") == nullptr)
    return record.turns.push_back(read_speech(speech, where, media, record));
  refuse_unread(speech, RecordObject::kRound, where, record);
  for (const auto& [key, role] :
       {std::pair{"human", Role::kUser}, std::pair{"assistant", Role::kAssistant}})
    record.turns.push_back(
        {role, split_text(text_of(member(speech, key, where), str(where, ".", key)), media)});
}

void read_list(const Json& root, const char* name, Record& record,
               void (*add)(const Json&, const std::string&, ListedMedia&, Record&)) {
  const Json& list = member(root, name, "record");
  if (!list.is_array())
    refuse("bad_field", str(name, " is of type ", list.type_name(), ", expected list"));
  refuse_unread(root, RecordObject::kRecord, "record", record);
  add_system(root, record);
  ListedMedia media(root, record);
  for (std::size_t i = 0; i < list.size(); ++i) add(list[i], str(name, "[", i, "]"), media, record);
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
  read_list(root, "messages", record, add_message);
}

void read_conversations(const Json& root, const RecordOptions&, Record& record) {
  read_list(root, only_column(root, kConversations).c_str(), record, add_speech);
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
