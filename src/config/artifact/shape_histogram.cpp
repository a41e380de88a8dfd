#include "config/artifact/shape_histogram.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/reading/artifact_object.h"
#include "config/reading/yaml_json.h"

namespace tributary::config {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::int64_t kMaxPatches = std::int64_t{1} << 26;

std::optional<Grid> read_grid(const Json& json) {
  if (!json.is_array() || json.size() != 3) return std::nullopt;
  std::int64_t sides[3];
  for (std::size_t i = 0; i < 3; ++i) {
    if (!json[i].is_number_integer()) return std::nullopt;
    sides[i] = json[i].get<std::int64_t>();
    if (sides[i] < 1 || sides[i] > 1 << 20) return std::nullopt;
  }
  const Grid grid{sides[0], sides[1], sides[2]};
  if (sides[0] * sides[1] > kMaxPatches || grid.patches() > kMaxPatches) return std::nullopt;
  return grid;
}

std::vector<Grid> read_grids(ArtifactObject& bin, const std::string& key) {
  std::vector<Grid> grids;
  const Json* list = bin.find(key);
  if (list == nullptr) return grids;
  const std::string expected =
      "a list of [steps in time, rows, columns] of patches, each from 1, at most 2^26 together";
  if (!list->is_array()) {
    bin.refuse(key, expected);
    return grids;
  }
  for (const Json& item : *list) {
    const std::optional<Grid> grid = read_grid(item);
    if (grid) {
      grids.push_back(*grid);
      continue;
    }
    bin.refuse(key, expected);
    break;
  }
  return grids;
}

/// Sounds by the positions that their frames become.
std::vector<Grid> read_sounds(ArtifactObject& bin) {
  std::vector<Grid> sounds;
  const Json* list = bin.find("clips");
  if (list == nullptr) return sounds;
  const auto fits = [](const Json& item) {
    return item.is_number_integer() && item.get<std::int64_t>() >= 1 &&
           item.get<std::int64_t>() <= kMaxPatches;
  };
  if (list->is_array() && std::ranges::all_of(*list, fits))
    for (const Json& item : *list)
      sounds.push_back({1, 1, kFramesOfPosition * item.get<std::int64_t>()});
  else
    bin.refuse("clips", "a list of positions of sound, each from 1 to 2^26");
  return sounds;
}

ShapeBin read_bin(ArtifactObject json) {
  ShapeBin bin;
  bin.samples = json.whole("samples", std::nullopt, {1, std::int64_t{1} << 40});
  bin.shape.tokens = {json.whole("tokens", std::nullopt, {1, 1 << 26})};
  bin.shape.target_tokens = {json.whole("target_tokens", 0, {0, bin.shape.tokens.count})};
  bin.shape.images = read_grids(json, "images");
  bin.shape.videos = read_grids(json, "videos");
  bin.shape.sounds = read_sounds(json);
  json.refuse_unknown();
  return bin;
}

OrderedJson write_grids(const std::vector<Grid>& grids) {
  OrderedJson list = OrderedJson::array();
  for (const Grid& grid : grids) list.push_back({grid.time, grid.rows, grid.columns});
  return list;
}

OrderedJson write_bin(const ShapeBin& bin) {
  OrderedJson written{{"samples", bin.samples},
                      {"tokens", bin.shape.tokens.count},
                      {"target_tokens", bin.shape.target_tokens.count},
                      {"images", write_grids(bin.shape.images)},
                      {"videos", write_grids(bin.shape.videos)}};
  for (const Grid& sound : bin.shape.sounds)
    written["clips"].push_back(sound.patches() / kFramesOfPosition);
  return written;
}

}  // namespace

std::int64_t ShapeHistogram::samples() const {
  std::int64_t sum = 0;
  for (const ShapeBin& bin : bins) sum += bin.samples;
  return sum;
}

ShapeHistogram parse_shape_histogram(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where);
  Problems problems;
  ArtifactObject root(json, where, "", problems);
  problems.raise_if_any(where);
  const std::string format = root.text("format", "");
  TRIB_REQUIRE(format == kShapeHistogramFormat,
               .what = "config: not a shape histogram of this version",
               .where = root.where("format"), .found = escaped(format),
               .expected = std::string(kShapeHistogramFormat));
  ShapeHistogram histogram{.source = root.text("source", "")};
  for (ArtifactObject& bin : root.items("bins")) histogram.bins.push_back(read_bin(std::move(bin)));
  if (histogram.bins.empty()) root.refuse("bins", "a list of one bin at least");
  root.refuse_unknown();
  problems.raise_if_any(where);
  return histogram;
}

ShapeHistogram read_shape_histogram(const std::string& path) {
  return parse_shape_histogram(
      read_artifact(path, "a shape histogram, docs/formats/shape_histogram.md"), path);
}

std::string write_shape_histogram(const ShapeHistogram& histogram) {
  const std::string source =
      Json(histogram.source).dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string text =
      str("{\"format\": \"", kShapeHistogramFormat, "\", \"source\": ", source, ",\n \"bins\": [");
  for (std::size_t i = 0; i < histogram.bins.size(); ++i)
    text += str(i == 0 ? "\n  " : ",\n  ", write_bin(histogram.bins[i]).dump());
  text += "\n]}\n";
  TRIB_REQUIRE(text.size() <= JsonLimits{}.max_bytes,
               .what = "config: shape histogram is too large",
               .found = str(text.size(), " bytes for ", histogram.bins.size(), " shapes"),
               .expected = str("at most ", JsonLimits{}.max_bytes, " bytes, which readers take"),
               .fix = "count the shapes of fewer records: --limit of data inspect");
  return text;
}

}  // namespace tributary::config
