// Reads pictures and clips from one file and writes their patch rows to another, for
// processor_parity.py. All numbers are little-endian: input is, per item, i32 processor, is_clip,
// frames, height, width, min and max pixels or tiles, then the bytes [frames, height, width, 3];
// output is, per item, i32 time, rows, columns, tokens, then f32 rows; a refused item has zeros.

#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <vector>

#include "data/preprocess/qwen_vl.h"
#include "ops/resize_bicubic.h"

namespace tributary {
namespace {

data::Picture resize(const data::Picture& picture, int height, int width) {
  return {width, height,
          ops::resize_bicubic(picture.rgb, picture.height, picture.width, height, width)};
}

/// The processors, as tile_processors.py and qwen_processors.py number them.
enum Processor : std::int32_t {
  kQwenVl,
  kInternVl,
  kLlavaAlone,
  kLlavaAmongOthers,
  kQwen3Vl,
  kQwenOmni
};

data::PreprocessorConfig config_of(std::int32_t processor, std::int64_t min, std::int64_t max) {
  data::PreprocessorConfig config;
  config.image = config.clip = {min, max};
  if (processor == kQwenVl || processor == kQwenOmni) return config;
  if (processor == kQwen3Vl) {
    config.patch = 16;
    config.mean = config.deviation = {0.5F, 0.5F, 0.5F};
    config.limits_whole_clip = true;
    return config;
  }
  config.temporal_patch = 1;
  config::VisionConfig& tower = config.tiles.emplace();
  tower.temporal_patch = 1;
  tower.tile = 56;
  config.tile_limits = {min, max};
  config.mean = {0.485F, 0.456F, 0.406F};
  config.deviation = {0.229F, 0.224F, 0.225F};
  tower.kind = config::VisionClass::kInternVit;
  if (processor == kInternVl) return config;
  tower.kind = config::VisionClass::kSiglip;
  tower.tile = 60;  // of which the patches leave 4 pixels out
  tower.merge = config.merge = 1;
  tower.max_tiles = 9;
  for (std::int64_t rows = 1; rows <= 6; ++rows)
    for (std::int64_t columns = 1; columns <= 6; ++columns)
      tower.arrangements.push_back({rows, columns});
  return config;
}

template <class Value>
void write(std::ofstream& out, const Value* values, std::size_t count) {
  out.write(reinterpret_cast<const char*>(values),
            static_cast<std::streamsize>(count * sizeof(Value)));
}

void convert(std::ifstream& in, std::ofstream& out) {
  std::int32_t head[7];
  while (in.read(reinterpret_cast<char*>(head), sizeof head)) {
    const auto [processor, is_clip, frames, height, width, min, max] = head;
    const data::PreprocessorConfig config = config_of(processor, min, max);
    std::vector<data::Picture> pictures;
    for (int frame = 0; frame < frames; ++frame) {
      pictures.push_back({width, height, {}});
      pictures.back().rgb.resize(std::size_t{3} * height * width);
      in.read(reinterpret_cast<char*>(pictures.back().rgb.data()), std::ssize(pictures.back().rgb));
    }
    const Result<data::PatchedItem> item =
        is_clip ? data::patch_clip(pictures, 2.0, config, resize)
                : data::patch_image(pictures.front(), config, resize,
                                    processor == kLlavaAmongOthers ? data::Company::kOthers
                                                                   : data::Company::kAlone);
    const data::PatchedItem value = item ? item.value() : data::PatchedItem{};
    const std::int32_t grid[] = {
        static_cast<std::int32_t>(value.grid.time), static_cast<std::int32_t>(value.grid.rows),
        static_cast<std::int32_t>(value.grid.columns),
        static_cast<std::int32_t>(item ? data::merged_tokens(value.grid, config) : 0)};
    write(out, grid, 4);
    write(out, value.rows.data(), value.rows.size());
  }
}

}  // namespace
}  // namespace tributary

int main(int count, char** arguments) {
  if (count != 3) {
    std::cerr << "usage: patch_rows INPUT OUTPUT\n";
    return 64;
  }
  try {
    std::ifstream in(arguments[1], std::ios::binary);
    std::ofstream out(arguments[2], std::ios::binary);
    tributary::convert(in, out);
    return in.eof() && out.flush() ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
