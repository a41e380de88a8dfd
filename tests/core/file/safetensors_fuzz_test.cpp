#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "core/file/safetensors.h"
#include "core/json.h"
#include "core/random.h"

namespace tributary {
namespace {

/// The content of a header: name -> dtype, shape, place. Null when it is not valid.
using Reading = std::optional<std::map<std::string, std::string>>;

Reading read_by_ours(const std::string& file) {
  try {
    const SafetensorsHeader header =
        parse_safetensors_header(std::as_bytes(std::span(file)), file.size(), "fuzz");
    std::map<std::string, std::string> reading;
    for (const StoredTensor& tensor : header.tensors)
      reading[tensor.name] =
          str(stored_name(tensor.dtype), Json(tensor.shape).dump(),
              tensor.begin - header.data_start, "-", tensor.end - header.data_start);
    return reading;
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kInput) << error.what();
    return std::nullopt;
  }
}

const std::map<std::string, std::uint64_t> kWidths{
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
    {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
    {"U32", 4},  {"F32", 4}, {"I64", 8}, {"U64", 8},     {"F64", 8}};

using Place = std::pair<std::uint64_t, std::uint64_t>;  // begin, end

bool is_count(const Json& value) { return value.is_number_unsigned(); }

bool is_name(const std::string& name) {
  if (name.empty() || name.size() > 4096 || ("/" + name + "/").find("/../") != std::string::npos)
    return false;
  return std::all_of(name.begin(), name.end(),
                     [](char letter) { return static_cast<unsigned char>(letter) >= 0x20; });
}

/// Reads one entry by the rules of the format (three fields, sizes that agree) and marks its bytes.
std::optional<std::string> read_entry(const Json& entry, std::vector<int>& used,
                                      std::vector<Place>& places) {
  if (!entry.is_object() || entry.size() != 3) return std::nullopt;
  for (const char* field : {"dtype", "shape", "data_offsets"})
    if (!entry.contains(field)) return std::nullopt;
  const Json& dtype = entry["dtype"];
  const Json& shape = entry["shape"];
  const Json& place = entry["data_offsets"];
  if (!dtype.is_string() || !kWidths.contains(dtype) || !shape.is_array() || !place.is_array() ||
      place.size() != 2 || shape.size() > 64)
    return std::nullopt;
  if (!std::all_of(shape.begin(), shape.end(), is_count) || !is_count(place[0]) ||
      !is_count(place[1]))
    return std::nullopt;
  __extension__ using Wide = unsigned __int128;
  Wide bytes = kWidths.at(dtype);
  for (const Json& size : shape) {
    if (size.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
    bytes *= size.get<std::uint64_t>();
    if (bytes >> 64 != 0) return std::nullopt;
  }
  const auto begin = place[0].get<std::uint64_t>();
  const auto end = place[1].get<std::uint64_t>();
  if (end < begin || end > used.size() || end - begin != bytes) return std::nullopt;
  for (std::uint64_t i = begin; i < end; ++i) ++used[i];
  places.emplace_back(begin, end);
  return str(dtype.get<std::string>(), shape.dump(), begin, "-", end);
}

/// The second parser: reads the whole header into a tree and counts each byte of the data part.
Reading read_by_tree(const std::string& file) {
  std::uint64_t length = 0;
  if (file.size() < 8) return std::nullopt;
  std::memcpy(&length, file.data(), 8);
  if (length < 2 || length > file.size() - 8 || file[8] != '{') return std::nullopt;
  const std::string text = file.substr(8, length);
  if (text.find('\0') != std::string::npos) return std::nullopt;
  std::vector<int> used(file.size() - 8 - length);
  std::vector<Place> places;
  std::map<std::string, std::string> reading;
  try {
    const Json json = parse_json(text, "fuzz");
    for (const auto& [name, entry] : json.items()) {
      if (name == "__metadata__") {
        if (!entry.is_object()) return std::nullopt;
        for (const Json& value : entry)
          if (!value.is_string()) return std::nullopt;
        continue;
      }
      const std::optional<std::string> read = read_entry(entry, used, places);
      if (!read || !is_name(name)) return std::nullopt;
      reading[name] = *read;
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  if (!std::all_of(used.begin(), used.end(), [](int times) { return times == 1; }))
    return std::nullopt;
  for (const auto& [inside, ignored] : places)  // no tensor begins inside another
    for (const auto& [begin, end] : places)
      if (begin < inside && inside < end) return std::nullopt;
  return reading;
}

/// A small valid file: a few tensors back to back, and metadata sometimes.
std::string valid_file(RandomStream& random) {
  std::string header = "{";
  if (random.below(2) == 0) header += R"("__metadata__":{"format":"pt"},)";
  std::uint64_t offset = 0;
  for (int i = 0; i < 3; ++i) {
    auto width = kWidths.begin();
    std::advance(width, static_cast<std::ptrdiff_t>(random.below(kWidths.size())));
    const std::uint64_t rows = random.below(3);
    const std::uint64_t bytes = rows * 2 * width->second;
    header += str(i == 0 ? "" : ",", "\"t", i, R"(":{"dtype":")", width->first, R"(","shape":[)",
                  rows, ",2],\"data_offsets\":[", offset, ",", offset + bytes, "]}");
    offset += bytes;
  }
  header += "}" + std::string(random.below(3), ' ');
  std::string file(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(offset, 'd');
}

/// Changes a few bytes, mostly into bytes that the format uses too.
void damage(std::string& file, RandomStream& random) {
  constexpr std::string_view kLetters = "{}[]\",:0123456789-.eE\\tUF_ ";
  for (std::int64_t changes = random.between(0, 2); changes > 0; --changes) {
    const std::size_t at = random.below(file.size());
    switch (random.below(5)) {
      case 0:
        file.erase(at, 1);
        break;
      case 1:
        file.insert(at, 1, kLetters[random.below(kLetters.size())]);
        break;
      case 2:
        file[at] = static_cast<char>(random.below(256));
        break;
      case 3:
        file += 'd';
        break;
      default:
        file[at] = kLetters[random.below(kLetters.size())];
        break;
    }
    // Half of the time the length field is repaired, so that the reader gets to the header.
    const std::size_t end = file.rfind('}');
    if (random.below(2) == 0 && file.size() > 8 && end != std::string::npos && end > 8) {
      const std::uint64_t length = end - 7;
      std::memcpy(file.data(), &length, 8);
    }
  }
}

TEST(SafetensorsHeader, AgreesWithASecondParserOnDamagedFiles) {
  int accepted = 0;
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 40000; ++seed) {
    RandomStream random(seed, "safetensors fuzz");
    std::string file = valid_file(random);
    damage(file, random);
    const Reading ours = read_by_ours(file);
    const Reading tree = read_by_tree(file);
    ASSERT_EQ(ours, tree) << "seed " << seed << ": "
                          << file.substr(std::min<std::size_t>(8, file.size()));
    ++(ours ? accepted : refused);
  }
  EXPECT_GT(accepted, 5000);
  EXPECT_GT(refused, 5000);
}

}  // namespace
}  // namespace tributary
