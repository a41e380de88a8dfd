#include "app/chat/read_media.h"

#include <filesystem>
#include <vector>

#include "core/error.h"
#include "core/file/given_file.h"
#include "data/decode/decode_picture.h"
#include "data/decode/sound_file.h"

namespace tributary::app {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPictureKinds = "JPEG, PNG, WebP, GIF or BMP";
constexpr const char* kSoundKinds = "WAV, FLAC, Ogg, MP3, M4A or MP4";

/// Reads a file that the user named. `kind` says what it is to be: "image".
std::vector<std::uint8_t> read_media(const std::string& path, const std::string& kind,
                                     const std::string& formats) {
  constexpr std::uint64_t kMaxBytes = std::uint64_t{256} << 20;
  TRIB_REQUIRE(fs::is_regular_file(path), .what = str("app: no such ", kind), .where = path,
               .found = fs::exists(path) ? "no regular file" : "nothing",
               .fix = str("give the path of a ", formats, " file"));
  const std::string bytes =
      read_given_file(path, kMaxBytes, {.what = str("app: ", kind, " cannot be read")});
  TRIB_REQUIRE(bytes.size() <= kMaxBytes,
               .what = str("app: ", kind, " file is larger than the limit"), .where = path,
               .expected = str("at most ", kMaxBytes, " bytes"));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

ChatPicture read_picture(const std::string& path) {
  Result<data::Picture> picture = data::decode_picture(read_media(path, "image", kPictureKinds));
  TRIB_REQUIRE(picture.has_value(), .what = "app: image cannot be decoded", .where = path,
               .found = str(picture.refusal().code, ": ", picture.refusal().reason),
               .expected = str("a ", kPictureKinds, " file"));
  return {.name = path, .picture = std::move(picture).value()};
}

ChatSound read_sound(const std::string& path) {
  Result<data::Sound> sound = data::decode_sound(read_media(path, "sound", kSoundKinds));
  TRIB_REQUIRE(sound.has_value(), .what = "app: sound cannot be decoded", .where = path,
               .found = str(sound.refusal().code, ": ", sound.refusal().reason),
               .expected = str("a ", kSoundKinds, " file"));
  return {.name = path, .sound = std::move(sound).value()};
}

void add_picture(ChatPicture picture, data::Turn& turn, ChatRequest& request) {
  turn.parts.emplace_back(data::MediaReference{.modality = Modality::kImage,
                                               .index = static_cast<int>(request.pictures.size())});
  request.pictures.push_back(std::move(picture));
}

void add_sound(ChatSound sound, data::Turn& turn, ChatRequest& request) {
  turn.parts.emplace_back(data::MediaReference{.modality = Modality::kAudio,
                                               .index = static_cast<int>(request.sounds.size())});
  request.sounds.push_back(std::move(sound));
}

void require_hearing(const ChatModel& model, const std::string& path, std::size_t sounds) {
  TRIB_REQUIRE(model.hears(), .what = "app: this model takes no sounds", .where = path,
               .found = str(sounds, sounds == 1 ? " sound" : " sounds"),
               .fix = "leave the sounds out, or use a model with an encoder of sound");
}

void require_vision(const ChatModel& model, const std::string& path, std::size_t images) {
  TRIB_REQUIRE(model.sees_pictures(), .what = "app: this model takes no images", .where = path,
               .found = str(images, images == 1 ? " image" : " images"),
               .fix = "leave the images out, or use a model with a vision tower");
}

}  // namespace tributary::app
