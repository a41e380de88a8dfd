// Reads files of sound and writes what becomes of them, for sound_parity.py. The first line of the
// list says the frames of a chunk (0: none, as in Qwen2-Audio) and the positions of the longest
// sound. Per file named in the list: i32 samples at 16 kHz, f32 values; i32 frames, f32 rows; i32
// tokens. A refused file has zeros, and its code is printed.

#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "data/decode/sound_file.h"
#include "data/preprocess/resample.h"
#include "data/preprocess/whisper.h"
#include "train/start/media_kernels.h"

namespace tributary {
namespace {

void write(std::ofstream& out, const std::vector<float>& values, std::int64_t count) {
  const auto number = static_cast<std::int32_t>(count);
  out.write(reinterpret_cast<const char*>(&number), sizeof number);
  out.write(reinterpret_cast<const char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(float)));
}

void convert(std::ifstream& list, std::ofstream& out) {
  data::SoundConfig config;
  list >> config.model.chunk >> config.model.positions >> std::ws;
  for (std::string path; std::getline(list, path);) {
    std::ifstream in(path, std::ios::binary);
    const std::vector<char> text{std::istreambuf_iterator<char>(in), {}};
    const std::vector<std::uint8_t> file(text.begin(), text.end());
    const Result<data::Sound> sound = data::decode_sound(file);
    const Result<data::PatchedItem> item =
        sound ? data::frame_sound(sound.value(), config, train::frame_samples)
              : Result<data::PatchedItem>(sound.refusal());
    if (!item) {
      std::cout << path << " " << item.refusal().code << "\n";
      for (int number = 0; number < 3; ++number) write(out, {}, 0);
      continue;
    }
    const std::vector<float> samples = data::resample(sound.value(), config.rate);
    write(out, samples, std::ssize(samples));
    write(out, item.value().rows, item.value().grid.patches());
    write(out, {}, config.model.tokens_of(item.value().grid));
  }
}

}  // namespace
}  // namespace tributary

int main(int count, char** arguments) {
  if (count != 3) {
    std::cerr << "usage: sound_rows LIST OUTPUT\n";
    return 64;
  }
  try {
    std::ifstream list(arguments[1]);
    std::ofstream out(arguments[2], std::ios::binary);
    tributary::convert(list, out);
    return out.flush() ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
