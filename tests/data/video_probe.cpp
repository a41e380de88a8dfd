// What the readers of video files and of sound in their containers do, for video_files.py.
//
// usage: video_probe frames FILE FPS OUT: prints size, frames and fps of the file and the numbers
// of
//        the frames that Qwen2.5-VL takes, and writes these as bytes [frames, height, width, 3]
//        video_probe sample: reads lines `total video_fps fps third`, prints the numbers for each
//        video_probe sound FILE OUT: prints samples and rate, writes the samples as f32
//        video_probe damage FILE SEED COUNT: changes bytes of the file, COUNT times, and prints how
//        often it was read and how often refused
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "data/decode/sound_file.h"
#include "data/decode/video_file.h"
#include "data/preprocess/sample_frames.h"

namespace tributary::data {
namespace {

int say(const Refusal& refusal) {
  std::cerr << refusal.code << ": " << refusal.reason << "\n";
  return 1;
}

void print(const std::vector<std::int64_t>& numbers) {
  for (const std::int64_t number : numbers) std::cout << number << " ";
  std::cout << "\n";
}

std::vector<std::uint8_t> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> text{std::istreambuf_iterator<char>(in), {}};
  return {text.begin(), text.end()};
}

int write_sound(const std::string& path, const std::string& out) {
  const std::vector<std::uint8_t> file = read_file(path);
  const Result<SoundSize> size = read_sound_size(file);
  if (!size) return say(size.refusal());
  std::cout << size.value().samples << " " << size.value().rate << "\n";
  const Result<Sound> sound = decode_sound(file);
  if (!sound) return say(sound.refusal());
  std::ofstream bytes(out, std::ios::binary);
  const std::vector<float>& samples = sound.value().samples;
  bytes.write(reinterpret_cast<const char*>(samples.data()),
              static_cast<std::streamsize>(samples.size() * sizeof(float)));
  return 0;
}

/// errors: 1 where the size of a damaged file is not that of what is decoded
int damage(const std::string& path, unsigned seed, int count) {
  const std::vector<std::uint8_t> whole = read_file(path);
  std::mt19937 random(seed);
  int taken = 0;
  for (int i = 0; i < count; ++i) {
    std::vector<std::uint8_t> file = whole;
    for (unsigned changes = 1 + random() % 8; changes > 0; --changes)
      file[random() % file.size()] = static_cast<std::uint8_t>(random());
    if (random() % 4 == 0) file.resize(random() % file.size());
    const Result<SoundSize> size = read_sound_size(file);
    const Result<Sound> sound = decode_sound(file);
    if (size.has_value() != sound.has_value()) return 1;
    if (size && size.value().samples != std::ssize(sound.value().samples)) return 1;
    taken += size ? 1 : 0;
  }
  std::cout << taken << " " << count - taken << "\n";
  return 0;
}

int write_frames(const std::string& path, double fps, const std::string& out) {
  const std::vector<std::uint8_t> file = read_file(path);
  const Result<VideoHeader> header = read_video_header(file);
  if (!header) return say(header.refusal());
  const auto [size, frames, video_fps] = header.value();
  std::cout << size.width << " " << size.height << " " << frames << " " << video_fps << "\n";
  const std::vector<std::int64_t> taken = sample_frames(frames, video_fps, fps, {});
  print(taken);
  const Result<std::vector<Picture>> pictures = decode_video(file, taken);
  if (!pictures) return say(pictures.refusal());
  std::ofstream bytes(out, std::ios::binary);
  for (const Picture& picture : pictures.value())
    bytes.write(reinterpret_cast<const char*>(picture.rgb.data()), std::ssize(picture.rgb));
  return 0;
}

int sample() {
  std::int64_t total = 0;
  double video_fps = 0;
  double fps = 0;
  bool third = false;
  while (std::cin >> total >> video_fps >> fps >> third) {
    PreprocessorConfig config;
    config.limits_whole_clip = third;
    print(sample_frames(total, video_fps, fps, config));
  }
  return 0;
}

}  // namespace
}  // namespace tributary::data

int main(int count, char** arguments) {
  using namespace tributary::data;
  const std::string verb = count > 1 ? arguments[1] : "";
  if (verb == "sample") return sample();
  if (verb == "frames" && count == 5)
    return write_frames(arguments[2], std::atof(arguments[3]), arguments[4]);
  if (verb == "sound" && count == 4) return write_sound(arguments[2], arguments[3]);
  if (verb == "damage" && count == 5)
    return damage(arguments[2], static_cast<unsigned>(std::atoi(arguments[3])),
                  std::atoi(arguments[4]));
  std::cerr << "usage: video_probe frames FILE FPS OUT | sample | sound FILE OUT | "
               "damage FILE SEED COUNT\n";
  return 64;
}
