// What the reader of video files does, for video_files.py.
//
// usage: video_probe frames FILE FPS OUT: prints size, frames and fps of the file and the numbers
// of
//        the frames that Qwen2.5-VL takes, and writes these as bytes [frames, height, width, 3]
//        video_probe sample: reads lines `total video_fps fps third`, prints the numbers for each
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

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

int write_frames(const std::string& path, double fps, const std::string& out) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> text{std::istreambuf_iterator<char>(in), {}};
  const std::vector<std::uint8_t> file(text.begin(), text.end());
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
  std::cerr << "usage: video_probe frames FILE FPS OUT | video_probe sample\n";
  return 64;
}
