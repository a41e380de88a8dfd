#pragma once

#include <string>
#include <vector>

#include "core/json.h"
#include "data/record/listed_objects.h"
#include "data/record/record.h"
#include "data/record/unread_keys.h"

namespace tributary::data {

/// Thrown to leave the reading of one record; caught only in read_record.
struct Refused {
  Refusal refusal;
};
[[noreturn]] void refuse(std::string code, std::string reason);

/// The value of a key; null when it is missing or null.
[[nodiscard]] const Json* find(const Json& object, std::string_view key);
/// errors: Refused when the value is missing or `object` is none
[[nodiscard]] const Json& member(const Json& object, const char* key, const std::string& where);
/// errors: Refused when the value is no string or holds a NUL character
[[nodiscard]] std::string text_of(const Json& value, const std::string& where);

/// Whether a text has white space alone.
[[nodiscard]] bool is_blank(const std::string& text);

/// The texts of `answers`, each a text or an object with `answer`; empty without the key.
/// errors: Refused when it is no such list, or a text is blank
[[nodiscard]] std::vector<std::string> references_of(const Json& root);

/// Adds keys that nothing reads to the record; errors: Refused when one changes what is learned.
void refuse_unread(const Json& object, RecordObject kind, const std::string& where, Record& record);

/// Media and objects that a record lists beside its text, handed out in order of appearance.
class ListedMedia {
 public:
  /// Lists come from `image`, `images`, `video`, `videos`, `audio`, `audios` and, of images, from
  /// one key more.
  ///
  /// errors: Refused when a list is not as it should be
  ListedMedia(const Json& root, Record& record, std::string_view more_images = "");

  MediaReference take_image();
  MediaReference take_clip();
  MediaReference take_sound();
  [[nodiscard]] ListedObjects& objects() { return objects_; }

  /// All that no text has named.
  [[nodiscard]] std::vector<Part> take_rest();
  /// errors: Refused when there are not as many placeholders as listed items
  void check_counts() const;

 private:
  void add_clips(const Json& value, const std::string& key, double fps);

  Record& record_;
  ListedObjects objects_;
  std::vector<std::string> images_;
  std::vector<Clip> clips_;
  std::vector<std::string> sounds_;
  std::size_t images_asked_ = 0;
  std::size_t clips_asked_ = 0;
  std::size_t sounds_asked_ = 0;
};

/// Cuts a text at its placeholders.
[[nodiscard]] std::vector<Part> split_text(const std::string& text, ListedMedia& media);

/// Frames per second, or `otherwise`; errors: Refused
[[nodiscard]] double fps_of(const Json& object, const std::string& where, double otherwise);
/// A clip as a list of frames; errors: Refused
[[nodiscard]] Clip clip_of(const Json& value, const std::string& where, double fps, Record& record);

}  // namespace tributary::data
