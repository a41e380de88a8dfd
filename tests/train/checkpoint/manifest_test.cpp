#include "train/checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file/crc32c.h"
#include "core/json.h"
#include "core/random.h"

namespace tributary::train {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// Two files; a matrix in two chunks, a vector, an empty tensor and a scalar.
Manifest sample() {
  Manifest manifest{.job = "0a1b2c3d",
                    .incarnation = 3,
                    .step = 1200,
                    .world = 2,
                    .config_sha256 = std::string(64, 'c'),
                    .model_sha256 = {},
                    .score = "0.5",
                    .files = {{"model/a.safetensors", 4096 + 64, 4096, 7, {7}},
                              {"optim/b.safetensors", 4096 + 40, 4096, 9, {9}}},
                    .tensors = {}};
  manifest.tensors["model/m"] = {
      StoredDtype::kFloat32,
      {4, 4},
      {{0, 4096, 4128, {{0, 0}, {2, 4}}}, {1, 4096, 4128, {{2, 0}, {2, 4}}}}};
  manifest.tensors["model/v"] = {StoredDtype::kFloat64, {4}, {{0, 4128, 4160, {{0}, {4}}}}};
  manifest.tensors["model/none"] = {
      StoredDtype::kFloat32, {0, 3}, {{0, 4096, 4096, {{0, 0}, {0, 3}}}}};
  manifest.tensors["optim/step.v"] = {StoredDtype::kInt64, {}, {{1, 4128, 4136, {}}}};
  manifest.model_sha256 = digest_model(manifest.tensors);
  return manifest;
}

Json parsed(const std::string& text) { return parse_json(text, "text"); }

/// The text of a manifest with a right checksum of its own, whatever is in it.
std::string sign(Json json) {
  json["self_crc"] = "00000000";
  const std::string text = json.dump(-1, ' ', true);
  json["self_crc"] = crc_text(crc32c(std::as_bytes(std::span(text))));
  return json.dump(-1, ' ', true);
}

void refuses(const std::string& text, const std::string& words) {
  EXPECT_THAT([&] { (void)parse_manifest(text, "MANIFEST.json"); },
              ThrowsMessage<Error>(HasSubstr(words)));
}

/// Refuses the sample after a change of its JSON.
template <class Change>
void refuses_after(const Change& change, const std::string& words) {
  Json json = parsed(write_manifest(sample()));
  change(json);
  refuses(sign(json), words);
}

TEST(Manifest, IsReadAsItWasWritten) {
  const std::string text = write_manifest(sample());
  const Manifest read = parse_manifest(text, "MANIFEST.json");
  EXPECT_EQ(write_manifest(read), text);
  EXPECT_EQ(read.tensors.at("model/m").chunks[1].box, (Box{{2, 0}, {2, 4}}));
  EXPECT_EQ(text.find(' '), std::string::npos);
}

TEST(Manifest, OfALaterMinorVersionIsRead) {
  Json json = parsed(write_manifest(sample()));
  json["version"] = {1, 7};
  json["new_field"] = "new";
  EXPECT_EQ(parse_manifest(sign(json), "m").step, 1200);
}

TEST(Manifest, RefusesEveryFlippedBit) {
  const std::string text = write_manifest(sample());
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_THROW((void)parse_manifest(damaged, "m"), Error) << "bit " << bit;
  }
}

TEST(Manifest, RefusesEveryTruncation) {
  const std::string text = write_manifest(sample());
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_THROW((void)parse_manifest(text.substr(0, length), "m"), Error) << length;
}

TEST(Manifest, NamesWhatIsWrongWithTheEnvelope) {
  refuses_after([](Json& json) { json["format"] = "other"; },
                "manifest of another format; where: MANIFEST.json; found: \"other\"");
  refuses_after(
      [](Json& json) {
        json["version"] = {2, 0};
      },
      "manifest version is not known; where: MANIFEST.json; found: [2,0]");
  refuses_after([](Json& json) { json["endian"] = "big"; }, "foreign byte order");
  refuses_after([](Json& json) { json.erase("files"); },
                "manifest lacks a field; where: MANIFEST.json; found: no \"files\"");
  refuses_after([](Json& json) { json["step"] = -1; },
                "manifest field has the wrong type; where: MANIFEST.json, step; found: \"-1\"");
  refuses_after([](Json& json) { json["step"] = 1.5; }, "manifest field has the wrong type");
  refuses_after([](Json& json) { json["tensors"] = 3; }, "manifest entry is no object");
  refuses_after([](Json& json) { json["model_sha256"] = "00"; },
                "model digest differs from the tensors listed");
  Json json = parsed(write_manifest(sample()));
  json["step"] = 1201;
  refuses(json.dump(-1, ' ', true), "manifest checksum differs");
  refuses(parsed(write_manifest(sample())).dump(2), "manifest is not in canonical form");
}

TEST(Manifest, NamesWhatIsWrongWithAFile) {
  const auto file = [](Json& json) -> Json& { return json["files"][0]; };
  for (const char* name : {"../a", "model/../../a", "/etc/passwd", "model/", "model/.hidden", "a",
                           "other/a", "model/a/b", "model/a\n"})
    refuses_after([&](Json& json) { file(json)["name"] = name; }, "manifest names a file outside");
  refuses_after([&](Json& json) { file(json)["name"] = "optim/b.safetensors"; },
                "manifest names a file twice");
  refuses_after(
      [&](Json& json) {
        file(json)["block_crc32c"] = {"00000001", "00000002"};
      },
      "manifest file does not add up");
  refuses_after([&](Json& json) { file(json)["bytes"] = 1 << 30; },
                "manifest file does not add up");
  refuses_after([&](Json& json) { file(json)["crc32c"] = "00000008"; },
                "manifest checksums do not add up");
  refuses_after([&](Json& json) { file(json)["crc32c"] = "0000007"; }, "eight hexadecimal digits");
  refuses_after([&](Json& json) { file(json)["data_start"] = 5000; },
                "manifest file does not add up");
}

TEST(Manifest, NamesWhatIsWrongWithATensor) {
  const auto tensor = [](Json& json) -> Json& { return json["tensors"]["model/m"]; };
  const auto chunk = [&](Json& json) -> Json& { return tensor(json)["chunks"][1]; };
  refuses_after([&](Json& json) { tensor(json)["dtype"] = "F7"; },
                "unknown dtype; where: MANIFEST.json, tensor \"model/m\"; found: \"F7\"");
  refuses_after(
      [&](Json& json) {
        tensor(json)["shape"] = {1LL << 40, 1LL << 40};
      },
      "shape overflows 64 bits");
  refuses_after(
      [&](Json& json) {
        tensor(json)["shape"] = {4, 5};
      },
      "tensor not fully covered; where: MANIFEST.json, tensor \"model/m\", \"model/m\" [4,5]; "
      "found: 16 of 20 elements");
  refuses_after(
      [&](Json& json) {
        tensor(json)["shape"] = {3, 4};
      },
      "chunk lies outside its tensor");
  refuses_after([&](Json& json) { tensor(json)["chunks"].erase(1); }, "found: 8 of 16 elements");
  refuses_after([&](Json& json) { json["tensors"]["model/none"]["chunks"] = Json::array(); },
                "tensor not fully covered");
  refuses_after([&](Json& json) { chunk(json)["offsets"] = {1, 0}; }, "chunks of a tensor overlap");
  refuses_after([&](Json& json) { chunk(json)["file"] = 2; },
                "chunk names no file of the manifest");
  refuses_after([&](Json& json) { chunk(json)["begin"] = 4095; }, "chunk lies outside its file");
  refuses_after([&](Json& json) { chunk(json)["end"] = 1 << 20; }, "chunk lies outside its file");
  refuses_after([&](Json& json) { chunk(json)["end"] = 4127; },
                "chunk's bytes do not match its lengths");
  refuses_after([&](Json& json) { chunk(json)["lengths"] = {2}; }, "chunk lies outside its tensor");
  refuses_after([&](Json& json) { chunk(json)["begin"] = 4104, chunk(json)["end"] = 4136; },
                "tensors share bytes of a file");
}

/// Counts how often the chunks of a tensor cover each element, by visiting every one.
bool covers_once(const ManifestTensor& tensor) {
  std::vector<int> count(static_cast<std::size_t>(*volume(tensor.shape)));
  for (const ManifestChunk& chunk : tensor.chunks)
    for (const SharedRun& run : shared_runs(chunk.box, whole_box(tensor.shape)))
      for (std::int64_t i = 0; i < run.elements; ++i) ++count[static_cast<std::size_t>(run.to + i)];
  return std::all_of(count.begin(), count.end(), [](int times) { return times == 1; });
}

/// Every number below `json`, for changing one.
void collect_numbers(Json& json, std::vector<Json*>& numbers) {
  if (json.is_number()) numbers.push_back(&json);
  if (json.is_structured())
    for (Json& child : json) collect_numbers(child, numbers);
}

TEST(Manifest, AcceptedAfterRandomChangesCoversEachElementOnce) {
  int accepted = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    RandomStream random(seed, "manifest fuzz");
    Json json = parsed(write_manifest(sample()));
    std::vector<Json*> numbers;
    collect_numbers(json["tensors"], numbers);
    for (std::int64_t changes = random.between(1, 3); changes > 0; --changes) {
      Json& number = *random.pick(std::span(numbers));
      number = random.below(8) == 0 ? std::int64_t{1} << random.below(62)
                                    : number.get<std::int64_t>() + random.between(-4, 4);
    }
    try {
      for (const auto& [name, tensor] : parse_manifest(sign(json), "m").tensors)
        EXPECT_TRUE(covers_once(tensor)) << "seed " << seed;
      ++accepted;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), tributary::Fault::kInput) << error.what();
    }
  }
  EXPECT_GT(accepted, 50) << "the changes are too wild to test anything";
}

}  // namespace
}  // namespace tributary::train
