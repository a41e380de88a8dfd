// Reads files of sound and writes what becomes of them, for sound_parity.py. Per file named in the
// list: i32 samples at 16 kHz, f32 values; i32 frames, f32 rows. A refused file has 0 and 0, and
// its code is printed.

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
  const data::SoundConfig config;
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
      write(out, {}, 0);
      write(out, {}, 0);
      continue;
    }
    const std::vector<float> samples = data::resample(sound.value(), config.rate);
    write(out, samples, std::ssize(samples));
    write(out, item.value().rows, item.value().grid.patches());
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
