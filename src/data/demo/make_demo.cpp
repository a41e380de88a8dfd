#include "data/demo/make_demo.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

#include "core/error.h"
#include "data/demo/flat_png.h"

namespace tributary::data {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr int kFramesPerSecond = 2;
constexpr int kMaxTries = 10000;

[[noreturn]] void refuse_to_write(const fs::path& path, const std::string& found) {
  TRIB_RAISE(Fault::kResource, .what = "data: demo cannot be written", .where = path.string(),
             .found = found, .fix = "free disk space or choose another directory with -o");
}

void write_file(const fs::path& path, std::span<const std::uint8_t> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) refuse_to_write(path, std::strerror(errno));
}

void write_file(const fs::path& path, const std::string& text) {
  write_file(path, std::vector<std::uint8_t>(text.begin(), text.end()));
}

std::string number(std::int64_t index) {
  std::string digits = str(index);
  return std::string(6 - std::min<std::size_t>(6, digits.size()), '0') + digits;
}

OrderedJson text_part(const std::string& text) { return {{"type", "text"}, {"text", text}}; }

/// The first turn of the user: the pictures, then the question.
OrderedJson first_question(const Scene& scene, const std::vector<std::string>& files) {
  OrderedJson parts = OrderedJson::array();
  const std::string asked = scene.introduction + scene.turns.front().ask;
  if (scene.media == Media::kClip)
    parts.push_back({{"type", "video"}, {"video", files}, {"fps", kFramesPerSecond}});
  for (std::size_t i = 0; scene.media != Media::kClip && i < files.size(); ++i) {
    if (scene.media == Media::kNumberedPictures)
      parts.push_back(text_part(str("Picture ", i + 1, ":")));
    parts.push_back({{"type", "image"}, {"image", files[i]}});
  }
  parts.push_back(text_part(asked));
  return parts;
}

std::string record_line(const Scene& scene, const std::vector<std::string>& files) {
  OrderedJson messages = OrderedJson::array();
  for (const Question& question : scene.turns) {
    const bool is_first = messages.empty();
    messages.push_back(
        {{"role", "user"},
         {"content", is_first ? first_question(scene, files) : OrderedJson(question.ask)}});
    messages.push_back({{"role", "assistant"}, {"content", question.answer}});
  }
  return OrderedJson{{"messages", messages}}.dump() + "\n";
}

/// Chooses the questions of a record. Every second training record asks for the whole, which
/// teaches most; the others ask all single questions. A held-out record asks one question, and
/// every fifth asks for the whole.
void choose_questions(Scene& scene, Split split, std::int64_t index) {
  if (index % (split == Split::kTrain ? 2 : 5) == 0)
    scene.turns = {scene.whole};
  else if (split == Split::kHeldOut)
    scene.turns.resize(1);
}

void write_split(const DemoSource& source, const DemoOptions& options, Split split,
                 std::int64_t records, const fs::path& folder, const Glyphs& glyphs) {
  const std::string name = split == Split::kTrain ? "train" : "held_out";
  std::string lines;
  for (std::int64_t i = 0; i < records; ++i) {
    Scene scene = draw_scene(source, options.seed, split, i, glyphs);
    choose_questions(scene, split, i);
    std::vector<std::string> files;
    for (const Picture& picture : scene.pictures) {
      std::string file = str("images/", name, "_", number(i));
      if (scene.pictures.size() > 1) file += str("_", files.size() + 1);
      files.push_back(file + ".png");
      write_file(folder / files.back(), write_flat_png(picture));
    }
    lines += record_line(scene, files);
  }
  write_file(folder / (name + ".jsonl"), lines);
}

void write_sources(const DemoOptions& options, const fs::path& directory) {
  const Glyphs glyphs{std::string(kDemoFont)};
  for (const DemoSource& source : demo_sources()) {
    const fs::path folder = directory / source.name;
    std::error_code failure;
    fs::create_directories(folder / "images", failure);
    if (failure) refuse_to_write(folder, failure.message());
    const std::int64_t records =
        std::max<std::int64_t>(1, options.samples * source.share_percent / 100);
    write_split(source, options, Split::kTrain, records, folder, glyphs);
    write_split(source, options, Split::kHeldOut, options.held_out, folder, glyphs);
  }
}

std::string manifest_text(const DemoOptions& options) {
  OrderedJson manifest{{"format", "tributary.demo/1"},
                       {"seed", options.seed},
                       {"samples", options.samples},
                       {"held_out_per_source", options.held_out},
                       {"sources", OrderedJson::array()}};
  for (const DemoSource& source : demo_sources()) manifest["sources"].push_back(source.name);
  return manifest.dump(2) + "\n";
}

/// Whether the directory is complete with these options; refuses one that holds something else.
bool is_there_already(const fs::path& directory, const std::string& manifest) {
  if (!fs::exists(directory) || fs::is_empty(directory)) return false;
  std::ifstream file(directory / "demo.json", std::ios::binary);
  const std::string found{std::istreambuf_iterator<char>(file), {}};
  TRIB_REQUIRE(found == manifest, .what = "data: directory for the demo holds something else",
               .where = directory.string(),
               .found = found.empty() ? "no demo.json" : "a demo.json of other options",
               .expected = "an empty or missing directory",
               .fix = str("rm -r ", directory.string(), ", or choose another with -o"));
  return true;
}

}  // namespace

const std::vector<DemoSource>& demo_sources() {
  static const std::vector<DemoSource> sources{{"text", 15, write_text},
                                               {"shapes", 25, draw_shapes},
                                               {"clips", 20, draw_clip},
                                               {"pairs", 15, draw_pairs},
                                               {"document", 25, draw_document}};
  return sources;
}

Split split_of(const std::string& content) {
  return RandomStream(0, content).below(8) == 0 ? Split::kHeldOut : Split::kTrain;
}

Scene draw_scene(const DemoSource& source, std::uint64_t seed, Split split, std::uint64_t index,
                 const Glyphs& glyphs) {
  RandomStream random(seed, source.name, index, split == Split::kHeldOut ? 1 : 0);
  for (int attempt = 0; attempt < kMaxTries; ++attempt) {
    Scene scene = source.draw(random, glyphs);
    if (split_of(scene.content) == split) return scene;
  }
  TRIB_RAISE(Fault::kBug, .what = "data: demo source has no content of a split",
             .where = std::string(source.name));
}

bool make_demo(const DemoOptions& options) {
  TRIB_REQUIRE(options.samples >= 1 && options.held_out >= 1,
               .what = "data: demo needs at least one record of each split",
               .found = str(options.samples, " samples, ", options.held_out, " held out"),
               .expected = "1 or more", .fix = "raise --samples and --held-out");
  const std::string manifest = manifest_text(options);
  fs::path target = fs::path(options.directory).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();  // written as `demo/`
  if (is_there_already(target, manifest)) return false;
  fs::path partial = target;
  partial += ".partial";
  std::error_code failure;
  fs::remove_all(partial, failure);
  try {
    write_sources(options, partial);
    write_file(partial / "demo.json", manifest);
    fs::remove(target, failure);  // an empty directory
    fs::rename(partial, target, failure);
    if (failure) refuse_to_write(target, failure.message());
  } catch (const Error&) {
    fs::remove_all(partial, failure);  // frees the space on a full disk
    throw;
  }
  return true;
}

}  // namespace tributary::data
