#include "data/record/record_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tributary::data {
namespace {

constexpr std::size_t kMaxFrames = 768;
constexpr double kMaxFps = 1000;

/// A word of a text in whose place the next item of the record stands.
struct Word {
  std::string_view text;
  bool is_object;
  Part (*take)(ListedMedia& media);
};
constexpr Word kWords[] = {
    {"<image>", false, [](ListedMedia& media) -> Part { return media.take_image(); }},
    {"<video>", false, [](ListedMedia& media) -> Part { return media.take_clip(); }},
    {"<audio>", false, [](ListedMedia& media) -> Part { return media.take_sound(); }},
    {"<ref-object>", true,
     [](ListedMedia& media) -> Part { return media.objects().take(ObjectReference::Kind::kName); }},
    {"<bbox>", true,
     [](ListedMedia& media) -> Part { return media.objects().take(ObjectReference::Kind::kBox); }},
};

std::vector<std::string> paths_of(const Json& value, const std::string& where, Record& record) {
  if (value.is_string()) return {text_of(value, where)};
  if (value.is_object()) {  // one picture: {"path": "a.png"}
    refuse_unread(value, RecordObject::kListedImage, where, record);
    return {text_of(member(value, "path", where), where)};
  }
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

}  // namespace

void refuse(std::string code, std::string reason) {
  throw Refused{{std::move(code), std::move(reason)}};
}

const Json* find(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const Json& member(const Json& object, const char* key, const std::string& where) {
  if (!object.is_object())
    refuse("bad_field", str(where, " is of type ", object.type_name(), ", expected object"));
  const Json* value = find(object, key);
  if (value == nullptr) refuse("bad_field", str(where, ".", key, " is missing"));
  return *value;
}

std::string text_of(const Json& value, const std::string& where) {
  if (!value.is_string())
    refuse("bad_field", str(where, " is of type ", value.type_name(), ", expected string"));
  auto text = value.get<std::string>();
  if (text.find('\0') != std::string::npos) refuse("bad_text", where + " holds a NUL character");
  return text;
}

bool is_blank(const std::string& text) {
  return text.find_first_not_of(" \t\r\n") == std::string::npos;
}

std::vector<std::string> references_of(const Json& root) {
  std::vector<std::string> references;
  const Json* answers = find(root, "answers");
  if (answers == nullptr) return references;
  if (!answers->is_array())
    refuse("bad_field", str("answers is of type ", answers->type_name(), ", expected list"));
  for (std::size_t i = 0; i < answers->size(); ++i) {
    const Json& each = (*answers)[i];
    const std::string where = str("answers[", i, "]");
    references.push_back(text_of(each.is_object() ? member(each, "answer", where) : each, where));
    if (is_blank(references.back())) refuse("empty_text", where + " has no text");
  }
  return references;
}

void refuse_unread(const Json& object, RecordObject kind, const std::string& where,
                   Record& record) {
  if (auto refusal = find_unread_keys(object, kind, where, record.unread_keys))
    throw Refused{*std::move(refusal)};
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

Clip clip_of(const Json& value, const std::string& where, double fps, Record& record) {
  if (value.is_string()) return {.frames = {}, .fps = fps, .file = text_of(value, where)};
  Clip clip{.frames = paths_of(value, where, record), .fps = fps, .file = {}};
  if (clip.frames.empty() || clip.frames.size() > kMaxFrames)
    refuse("bad_field",
           str(where, " has ", clip.frames.size(), " frames, expected 1 to ", kMaxFrames));
  return clip;
}

ListedMedia::ListedMedia(const Json& root, Record& record, std::string_view more_images)
    : record_(record), objects_(root, record) {
  for (const std::string_view key :
       {std::string_view("image"), std::string_view("images"), more_images})
    if (const Json* value = find(root, key))
      for (std::string& path : paths_of(*value, std::string(key), record))
        images_.push_back(std::move(path));
  const double fps = fps_of(root, "record", Clip{}.fps);
  for (const char* key : {"video", "videos"})
    if (const Json* value = find(root, key)) add_clips(*value, key, fps);
  for (const char* key : {"audio", "audios"})
    if (const Json* value = find(root, key))
      for (std::string& path : paths_of(*value, key, record)) sounds_.push_back(std::move(path));
}

MediaReference ListedMedia::take_image() {
  ++images_asked_;
  if (images_asked_ <= images_.size()) record_.images.push_back(images_[images_asked_ - 1]);
  return {Modality::kImage, static_cast<int>(record_.images.size()) - 1};
}

MediaReference ListedMedia::take_clip() {
  ++clips_asked_;
  if (clips_asked_ <= clips_.size()) record_.clips.push_back(clips_[clips_asked_ - 1]);
  return {Modality::kVideo, static_cast<int>(record_.clips.size()) - 1};
}

MediaReference ListedMedia::take_sound() {
  ++sounds_asked_;
  if (sounds_asked_ <= sounds_.size()) record_.sounds.push_back(sounds_[sounds_asked_ - 1]);
  return {Modality::kAudio, static_cast<int>(record_.sounds.size()) - 1};
}

std::vector<Part> ListedMedia::take_rest() {
  std::vector<Part> rest;
  while (images_asked_ < images_.size()) rest.emplace_back(take_image());
  while (clips_asked_ < clips_.size()) rest.emplace_back(take_clip());
  while (sounds_asked_ < sounds_.size()) rest.emplace_back(take_sound());
  return rest;
}

void ListedMedia::check_counts() const {
  if (images_asked_ != images_.size())
    refuse("placeholder_count",
           str(images_asked_, " image placeholders, ", images_.size(), " images in the record"));
  if (clips_asked_ != clips_.size())
    refuse("placeholder_count",
           str(clips_asked_, " video placeholders, ", clips_.size(), " clips in the record"));
  if (sounds_asked_ != sounds_.size())
    refuse("placeholder_count",
           str(sounds_asked_, " audio placeholders, ", sounds_.size(), " sounds in the record"));
  objects_.check_counts();
}

/// `video` is one clip (a list of frames, or a file) or, like `videos`, a list of clips.
void ListedMedia::add_clips(const Json& value, const std::string& key, double fps) {
  const bool nested = value.is_array() && !value.empty() && value.front().is_array();
  if (key == "videos" && !value.is_array())
    refuse("bad_field", str("videos is of type ", value.type_name(), ", expected a list of clips"));
  if (!nested && key == "video") return clips_.push_back(clip_of(value, key, fps, record_));
  for (std::size_t i = 0; i < value.size(); ++i)
    clips_.push_back(clip_of(value[i], str(key, "[", i, "]"), fps, record_));
}

std::vector<Part> split_text(const std::string& text, ListedMedia& media) {
  std::vector<Part> parts;
  std::size_t from = 0;
  for (;;) {
    const Word* next = nullptr;
    std::size_t at = std::string::npos;
    for (const Word& word : kWords) {
      if (word.is_object && !media.objects().are_listed()) continue;
      const std::size_t found = text.find(word.text, from);
      if (found >= at) continue;
      at = found;
      next = &word;
    }
    const std::string before = text.substr(from, at - from);
    if (!before.empty()) parts.emplace_back(before);
    if (next == nullptr) return parts;
    parts.push_back(next->take(media));
    from = at + next->text.size();
  }
}

}  // namespace tributary::data
