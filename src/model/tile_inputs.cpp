#include "model/tile_inputs.h"

#include <ATen/ATen.h>

#include "config/family/anyres.h"
#include "core/error.h"

namespace tributary::model {
namespace {

/// Cuts tiles into patches, those of a token one after the other.
/// shape: pixels [tiles, channels, height, width] -> returns [patches, channels * patch * patch]
at::Tensor cut_patches(const at::Tensor& pixels, const config::VisionConfig& vision,
                       const std::string& name) {
  TRIB_REQUIRE(
      pixels.dim() == 4 && pixels.size(1) == vision.channels && pixels.size(2) == vision.tile &&
          pixels.size(3) == vision.tile,
      .what = "model: input of another shape", .where = name,
      .found = tributary::str(pixels.sizes()),
      .expected = str("[tiles, ", vision.channels, ", ", vision.tile, ", ", vision.tile, "]"));
  const std::int64_t side = vision.tile_side();
  const std::int64_t tokens = side / vision.merge;
  const std::int64_t used = side * vision.patch;  // the convolution leaves the rest out
  return pixels.to(at::kFloat)
      .narrow(2, 0, used)
      .narrow(3, 0, used)
      .reshape({pixels.size(0), vision.channels, tokens, vision.merge, vision.patch, tokens,
                vision.merge, vision.patch})
      .permute({0, 2, 5, 3, 6, 1, 4, 7})
      .reshape({-1, vision.patch_width()});
}

const at::Tensor* tensor_of(const std::map<std::string, at::Tensor>& inputs,
                            const std::string& name) {
  const auto entry = inputs.find(name);
  return entry == inputs.end() ? nullptr : &entry->second;
}

void require_shape(bool fits, const std::string& name, const at::Tensor& found,
                   const std::string& expected) {
  TRIB_REQUIRE(fits, .what = "model: input of another shape", .where = name,
               .found = tributary::str(found.sizes()), .expected = expected);
}

/// Which images are the only ones of their sample: all, where nothing says more.
std::vector<bool> find_alone(const std::map<std::string, at::Tensor>& inputs, std::int64_t images) {
  const at::Tensor* given = tensor_of(inputs, "batch_num_images");
  if (given == nullptr) return std::vector<bool>(static_cast<std::size_t>(images), true);
  const at::Tensor counts = given->to(at::kLong).flatten().contiguous();
  std::vector<bool> alone;
  for (std::int64_t i = 0; i < counts.numel(); ++i) {
    const std::int64_t count = counts.const_data_ptr<std::int64_t>()[i];
    alone.insert(alone.end(), static_cast<std::size_t>(std::max<std::int64_t>(0, count)),
                 count == 1);
  }
  require_shape(std::ssize(alone) == images, "batch_num_images", *given,
                str("numbers with the sum ", images));
  return alone;
}

/// The images of LLaVA-OneVision, of which shorter ones have tiles of padding behind them.
EncoderInput read_media(const config::VisionConfig& vision,
                        const std::map<std::string, at::Tensor>& inputs, const at::Tensor& pixels) {
  const std::string name = "image_sizes";
  const at::Tensor* given = tensor_of(inputs, name);
  TRIB_REQUIRE(given != nullptr, .what = "model: pixels and sizes come together",
               .found = "pixel_values", .expected = "pixel_values and image_sizes");
  require_shape(pixels.dim() == 5, "pixel_values", pixels, "[images, tiles, channels, side, side]");
  require_shape(given->dim() == 2 && given->size(1) == 2 && given->size(0) == pixels.size(0), name,
                *given, str("[", pixels.size(0), ", 2]: height, width"));
  const at::Tensor sizes = given->to(at::kLong).contiguous();
  const std::vector<bool> alone = find_alone(inputs, pixels.size(0));
  const std::int64_t side = vision.tile_side();
  EncoderInput media;
  std::vector<at::Tensor> tiles;
  for (std::int64_t i = 0; i < pixels.size(0); ++i) {
    const std::int64_t* size = sizes.const_data_ptr<std::int64_t>() + 2 * i;
    require_shape(size[0] > 0 && size[1] > 0, name, *given, "sizes above 0");
    Grid grid{1, side, side, {1, side, side}};
    if (alone[static_cast<std::size_t>(i)]) {
      grid.time += config::choose_arrangement(vision, size[0], size[1]).tiles();
      grid.mosaic = config::mosaic_of(vision, size[0], size[1]);
    }
    require_shape(pixels.size(1) >= grid.time, "pixel_values", pixels,
                  str(grid.time, " tiles of image ", i, " at least"));
    media.grids.push_back(grid);
    tiles.push_back(pixels[i].narrow(0, 0, grid.time));
  }
  if (!tiles.empty()) media.rows = cut_patches(at::cat(tiles), vision, "pixel_values");
  return media;
}

EncoderInput read_clips(const config::VisionConfig& vision, const at::Tensor& pixels) {
  const std::string name = "pixel_values_videos";
  require_shape(pixels.dim() == 5, name, pixels, "[clips, frames, channels, side, side]");
  const std::int64_t side = vision.tile_side();
  EncoderInput media{.rows = cut_patches(pixels.flatten(0, 1), vision, name), .grids = {}};
  media.grids.assign(static_cast<std::size_t>(pixels.size(0)), {pixels.size(1), side, side});
  return media;
}

}  // namespace

std::map<Modality, EncoderInput> read_tiles(const config::VisionConfig& vision,
                                            const std::map<std::string, at::Tensor>& inputs) {
  std::map<Modality, EncoderInput> media;
  const at::Tensor* images = tensor_of(inputs, "pixel_values");
  const at::Tensor* clips = tensor_of(inputs, "pixel_values_videos");
  if (clips != nullptr) media[Modality::kVideo] = read_clips(vision, *clips);
  if (images == nullptr) return media;
  if (!vision.clips_are_pictures()) {
    media[Modality::kImage] = read_media(vision, inputs, *images);
    return media;
  }
  const std::int64_t side = vision.tile_side();
  EncoderInput& tiles = media[Modality::kImage];
  tiles.rows = cut_patches(*images, vision, "pixel_values");
  tiles.grids.assign(static_cast<std::size_t>(images->size(0)), {1, side, side});
  return media;
}

}  // namespace tributary::model
