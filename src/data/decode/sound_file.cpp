#include "data/decode/sound_file.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <sndfile.h>
#include <string_view>

#include "data/decode/media_library.h"

namespace tributary::data {
namespace {

/// A file in memory, as libsndfile reads it.
struct Memory {
  std::span<const std::uint8_t> bytes;
  sf_count_t at = 0;
};

sf_count_t length_of(void* user) {
  return static_cast<sf_count_t>(static_cast<Memory*>(user)->bytes.size());
}

sf_count_t seek(sf_count_t offset, int whence, void* user) {
  auto* memory = static_cast<Memory*>(user);
  const sf_count_t from = whence == SEEK_SET   ? 0
                          : whence == SEEK_CUR ? memory->at
                                               : length_of(user);
  memory->at = std::clamp<sf_count_t>(from + offset, 0, length_of(user));
  return memory->at;
}

sf_count_t read(void* to, sf_count_t count, void* user) {
  auto* memory = static_cast<Memory*>(user);
  const sf_count_t taken = std::clamp<sf_count_t>(count, 0, length_of(user) - memory->at);
  if (taken > 0)
    std::memcpy(to, memory->bytes.data() + memory->at, static_cast<std::size_t>(taken));
  memory->at += taken;
  return taken;
}

sf_count_t refuse_write(const void*, sf_count_t, void*) { return 0; }

sf_count_t tell(void* user) { return static_cast<Memory*>(user)->at; }

struct CloseSound {
  void operator()(SNDFILE* file) const { (void)sf_close(file); }
};

/// An open file whose header is within the limits.
struct OpenSound {
  std::unique_ptr<Memory> memory;
  SF_INFO info{};
  std::unique_ptr<SNDFILE, CloseSound> file;
};

bool is_read(int format) {
  const int type = format & SF_FORMAT_TYPEMASK;
  return type == SF_FORMAT_WAV || type == SF_FORMAT_WAVEX || type == SF_FORMAT_RF64 ||
         type == SF_FORMAT_FLAC || type == SF_FORMAT_OGG || type == SF_FORMAT_MPEG;
}

std::optional<Refusal> refuse_header(const SF_INFO& info, const SoundLimits& limits) {
  if (!is_read(info.format))
    return Refusal{"unknown_sound",
                   "a format of sound that is not read, expected WAV, FLAC, Ogg, MP3, or one of "
                   "FFmpeg's: MP4, Matroska, WebM, AVI, ASF, AAC"};
  if (info.frames == 0) return Refusal{"empty_sound", "no samples"};
  if (auto refusal = refuse_sound(info.samplerate, info.channels, limits)) return refusal;
  const double seconds = static_cast<double>(info.frames) / info.samplerate;
  if (info.frames < 0 || seconds > limits.max_seconds)
    return Refusal{"sound_limit", str(seconds, " seconds, limit ", limits.max_seconds)};
  return std::nullopt;
}

Result<OpenSound> open_sound(std::span<const std::uint8_t> file, const SoundLimits& limits) {
  SF_VIRTUAL_IO io{
      .get_filelen = length_of, .seek = seek, .read = read, .write = refuse_write, .tell = tell};
  OpenSound sound;
  sound.memory = std::make_unique<Memory>(Memory{file});
  sound.file.reset(sf_open_virtual(&io, SFM_READ, &sound.info, sound.memory.get()));
  if (!sound.file)
    return Refusal{"unknown_sound",
                   str("not a file of sound that libsndfile reads: ", sf_strerror(nullptr))};
  if (auto refusal = refuse_header(sound.info, limits)) return *refusal;
  return sound;
}

/// Whether the first bytes are those of a container that libsndfile does not read: MP4 and its
/// like, Matroska and WebM, AVI, ASF, or AAC in ADTS.
bool is_for_ffmpeg(std::span<const std::uint8_t> file) {
  using namespace std::string_view_literals;
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()),
                               std::min<std::size_t>(file.size(), 16));
  const auto has = [&](std::size_t at, std::string_view words) {
    return bytes.size() > at && bytes.substr(at).starts_with(words);
  };
  const bool is_adts = file.size() > 1 && file[0] == 0xFF && (file[1] & 0xF6) == 0xF0;
  return is_adts || has(4, "ftyp"sv) || has(0, "\x1a\x45\xdf\xa3"sv) ||
         (has(0, "RIFF"sv) && has(8, "AVI "sv)) || has(0, "\x30\x26\xb2\x75\x8e\x66\xcf\x11"sv);
}

}  // namespace

Result<SoundSize> read_sound_size(std::span<const std::uint8_t> file, const SoundLimits& limits) {
  if (is_for_ffmpeg(file)) {
    const Result<const MediaLibrary*> library = load_media_library();
    if (!library) return library.refusal();
    return library.value()->read_sound_size(file, limits);
  }
  const Result<OpenSound> sound = open_sound(file, limits);
  if (!sound) return sound.refusal();
  return SoundSize{.samples = sound.value().info.frames, .rate = sound.value().info.samplerate};
}

Result<Sound> decode_sound(std::span<const std::uint8_t> file, const SoundLimits& limits) {
  if (is_for_ffmpeg(file)) {
    const Result<const MediaLibrary*> library = load_media_library();
    if (!library) return library.refusal();
    return library.value()->decode_sound(file, limits);
  }
  const Result<OpenSound> opened = open_sound(file, limits);
  if (!opened) return opened.refusal();
  const SF_INFO& info = opened.value().info;
  const auto channels = static_cast<std::size_t>(info.channels);
  std::vector<float> all(static_cast<std::size_t>(info.frames) * channels);
  const sf_count_t read_frames = sf_readf_float(opened.value().file.get(), all.data(), info.frames);
  if (read_frames != info.frames)
    return Refusal{"sound_damaged", str(read_frames, " of ", info.frames,
                                        " samples: ", sf_strerror(opened.value().file.get()))};
  Sound sound{.rate = info.samplerate, .samples = {}};
  if (channels == 1) {
    sound.samples = std::move(all);
    return sound;
  }
  sound.samples.reserve(static_cast<std::size_t>(info.frames));
  for (std::size_t first = 0; first < all.size(); first += channels) {
    float sum = 0;
    for (std::size_t channel = 0; channel < channels; ++channel) sum += all[first + channel];
    sound.samples.push_back(sum / static_cast<float>(channels));
  }
  return sound;
}

}  // namespace tributary::data
