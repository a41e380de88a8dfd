#pragma once

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/json.h"
#include "data/decode/data_url.h"
#include "data/sample.h"

namespace tributary::data {

using Bytes8 = std::vector<std::uint8_t>;

/// A file of tests/golden/pictures with the pixels that Pillow gives.
struct GoldenPicture {
  std::string name;
  Bytes8 file;
  Picture picture;
};

inline std::vector<GoldenPicture> read_golden_pictures() {
  const std::string path = TRIB_SOURCE_DIR "/tests/golden/pictures/pictures.json";
  std::ifstream in(path);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  std::vector<GoldenPicture> pictures;
  const Json recorded = parse_json(text, path);
  for (const Json& entry : recorded.at("cases")) {
    pictures.push_back({entry.at("name"),
                        decode_base64(entry.at("file").get<std::string>()).value(),
                        {entry.at("width"), entry.at("height"),
                         decode_base64(entry.at("rgb").get<std::string>()).value()}});
  }
  return pictures;
}

inline const std::vector<GoldenPicture>& golden_pictures() {
  static const std::vector<GoldenPicture> all = read_golden_pictures();
  return all;
}

inline const GoldenPicture& find_picture(const std::string& name) {
  for (const GoldenPicture& one : golden_pictures())
    if (one.name == name) return one;
  throw std::runtime_error("no golden picture " + name);
}

}  // namespace tributary::data
