#include "data/preprocess/preprocessor_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"
#include "data/preprocess/processor_file.h"

namespace tributary::data {
namespace {

constexpr std::int64_t kMaxPixels = std::int64_t{1} << 40;
// Of the released Qwen3-VL: pixels of all frames, of which two are one step.
constexpr PixelLimits kWholeClip{.min = 4096, .max = 25165824};

/// Settings of one part; where there are none, every question gets the given default.
class Settings {
 public:
  Settings(const std::string& directory, ProcessorPart part) {
    ProcessorSettings found = find_processor_settings(directory, part);
    path_ = std::move(found.where);
    json_ = std::move(found.values);
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const Json* find(const std::string& key) const {
    const auto found = json_.find(key);
    return json_.is_object() && found != json_.end() && !found->is_null() ? &*found : nullptr;
  }

  [[nodiscard]] std::int64_t whole(const Json* value, const std::string& key,
                                   std::int64_t otherwise) const {
    if (value == nullptr || value->is_null()) return otherwise;
    TRIB_REQUIRE(value->is_number_integer() && *value >= 1 && *value <= kMaxPixels,
                 .what = "data: impossible number in the image processor's file",
                 .where = str(path_, " ", key), .found = value->dump(),
                 .expected = "a positive whole number");
    return value->get<std::int64_t>();
  }

  [[nodiscard]] std::array<float, 3> colour(const std::string& key,
                                            std::array<float, 3> otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    const bool usable =
        value->is_array() && value->size() == 3 &&
        std::ranges::all_of(*value, [](const Json& part) { return part.is_number(); });
    TRIB_REQUIRE(usable, .what = "data: impossible colour in the image processor's file",
                 .where = str(path_, " ", key), .found = value->dump(),
                 .expected = "three numbers: red, green, blue");
    return value->get<std::array<float, 3>>();
  }

  /// The older pair min_pixels and max_pixels wins over `size`, as in transformers 5.17.
  [[nodiscard]] PixelLimits limits(PixelLimits otherwise) const {
    const Json* size = find("size");
    const auto edge = [&](const char* name) -> const Json* {
      return size != nullptr && size->is_object() && size->contains(name) ? &(*size)[name]
                                                                          : nullptr;
    };
    const auto of = [&](const char* old_name, const char* name, std::int64_t value) {
      value = whole(edge(name), str("size.", name), value);
      return whole(find(old_name), old_name, value);
    };
    return {.min = of("min_pixels", "shortest_edge", otherwise.min),
            .max = of("max_pixels", "longest_edge", otherwise.max)};
  }

 private:
  std::string path_;
  Json json_;
};

std::int64_t agreed(const Settings& settings, const std::string& key, std::int64_t model) {
  const std::int64_t found = settings.whole(settings.find(key), key, model);
  TRIB_REQUIRE(found == model, .what = "data: image processor and model differ",
               .where = str(settings.path(), " ", key), .found = str(found),
               .expected = str(model, ", as in config.json"));
  return found;
}

PixelLimits narrowed(PixelLimits file, const std::optional<PixelLimits>& run,
                     const std::string& where) {
  if (run) file = {std::max(file.min, run->min), std::min(file.max, run->max)};
  TRIB_REQUIRE(file.min <= file.max, .what = "data: pixel limits leave no size", .where = where,
               .found = str("at least ", file.min, " and at most ", file.max, " pixels"),
               .expected = "a min that is not above the max",
               .fix = "change data.min_pixels or data.max_pixels");
  return file;
}

/// The sides of `size` must be those of a tile.
void check_tile(const Settings& settings, std::int64_t tile) {
  const Json* size = settings.find("size");
  for (const char* side : {"height", "width"}) {
    const bool is_given = size != nullptr && size->is_object() && size->contains(side);
    const std::int64_t found =
        settings.whole(is_given ? &(*size)[side] : nullptr, str("size.", side), tile);
    TRIB_REQUIRE(found == tile, .what = "data: image processor and model differ",
                 .where = str(settings.path(), " size.", side), .found = str(found),
                 .expected = str(tile, ", the image_size of config.json"));
  }
}

/// The limits of the file and, of all tiles together, those of the run.
TileLimits read_tile_limits(const Settings& settings, const config::VisionConfig& vision,
                            const std::optional<PixelLimits>& run) {
  const std::int64_t tile = vision.tile;
  TileLimits standard;
  if (vision.max_tiles > 0) standard.max = vision.max_tiles;
  TileLimits limits{
      .min = settings.whole(settings.find("min_patches"), "min_patches", standard.min),
      .max = settings.whole(settings.find("max_patches"), "max_patches", standard.max)};
  const std::int64_t area = tile * tile;
  if (run) {
    limits.min = std::max(limits.min, (run->min + area - 1) / area);
    limits.max = std::min(limits.max, run->max / area);
  }
  TRIB_REQUIRE(limits.min <= limits.max, .what = "data: pixel limits leave no size",
               .where = settings.path(),
               .found = str("at least ", limits.min, " and at most ", limits.max, " tiles of ",
                            tile, "x", tile, " pixels"),
               .expected = "a min that is not above the max",
               .fix = "change data.min_pixels or data.max_pixels");
  return limits;
}

/// `image_grid_pinpoints` must be those of config.json.
void check_arrangements(const Settings& settings, const config::VisionConfig& vision) {
  const Json* given = settings.find("image_grid_pinpoints");
  if (given == nullptr) return;
  Json expected = Json::array();
  for (const config::TileArrangement& each : vision.arrangements)
    expected.push_back({each.rows * vision.tile, each.columns * vision.tile});
  TRIB_REQUIRE(*given == expected, .what = "data: image processor and model differ",
               .where = str(settings.path(), " image_grid_pinpoints"), .found = given->dump(),
               .expected = str(expected.dump(), ", as in config.json"));
}

/// Leaves only the arrangements whose pixels are within the limits of the run.
void keep_arrangements(const Settings& settings, const std::optional<PixelLimits>& run,
                       config::VisionConfig& vision) {
  if (!run) return;
  std::erase_if(vision.arrangements, [&](const config::TileArrangement& each) {
    const std::int64_t pixels = each.tiles() * vision.tile * vision.tile;
    return pixels < run->min || pixels > run->max;
  });
  TRIB_REQUIRE(!vision.arrangements.empty(), .what = "data: pixel limits leave no size",
               .where = settings.path(),
               .found = str("at least ", run->min, " and at most ", run->max, " pixels"),
               .expected = str("a pinpoint of tiles of ", vision.tile, "x", vision.tile,
                               " pixels between them"),
               .fix = "change data.min_pixels or data.max_pixels");
}

/// Checks that no standard deviation is zero, because pixels are divided by it.
void check_deviation(const Settings& settings, const std::array<float, 3>& deviation) {
  for (const float part : deviation)
    TRIB_REQUIRE(std::isfinite(part) && part > 0,
                 .what = "data: impossible colour in the image processor's file",
                 .where = str(settings.path(), " image_std"), .found = str(part),
                 .expected = "numbers above 0");
}

}  // namespace

PreprocessorConfig read_preprocessor_config(const std::string& directory,
                                            const config::VisionConfig& vision,
                                            std::optional<PixelLimits> limits) {
  const Settings image(directory, ProcessorPart::kPictures);
  const Settings clip(directory, ProcessorPart::kClips);
  PreprocessorConfig config;
  config.patch = agreed(image, "patch_size", vision.patch);
  config.temporal_patch = agreed(image, "temporal_patch_size", vision.temporal_patch);
  config.merge = agreed(image, "merge_size", vision.merge);
  config.mean = image.colour("image_mean", config.mean);
  config.deviation = image.colour("image_std", config.deviation);
  check_deviation(image, config.deviation);
  if (vision.cuts_tiles()) {
    config.tiles = vision;
    check_tile(image, vision.tile);
    if (vision.arrangements.empty()) {
      config.tile_limits = read_tile_limits(image, vision, limits);
    } else {
      check_arrangements(image, vision);
      keep_arrangements(image, limits, *config.tiles);
    }
    return config;
  }
  const PixelLimits of_file = image.limits(config.image);
  config.image = narrowed(of_file, limits, image.path());
  config.limits_whole_clip = vision.splits_clips();
  if (limits) config.max_of_frame = limits->max;
  config.clip = config.limits_whole_clip ? clip.limits(kWholeClip)
                                         : narrowed(clip.limits(of_file), limits, clip.path());
  return config;
}

}  // namespace tributary::data
