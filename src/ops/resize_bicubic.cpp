#include "ops/resize_bicubic.h"

#include <ATen/ATen.h>

#include "core/error.h"

namespace tributary::ops {

std::vector<std::uint8_t> resize_bicubic(std::span<const std::uint8_t> rgb, std::int64_t height,
                                         std::int64_t width, std::int64_t new_height,
                                         std::int64_t new_width) {
  TRIB_REQUIRE(height > 0 && width > 0 && new_height > 0 && new_width > 0,
               .what = "ops: picture without pixels",
               .found = str(height, "x", width, " to ", new_height, "x", new_width),
               .expected = "sides of at least 1");
  TRIB_REQUIRE(std::ssize(rgb) == height * width * 3,
               .what = "ops: picture's buffer has another size",
               .found = str(rgb.size(), " values"),
               .expected = str(height * width * 3, " for ", height, "x", width, "x3"));
  const c10::InferenceMode no_gradients;
  // from_blob wants a mutable pointer; the resize only reads.
  const at::Tensor picture =
      at::from_blob(const_cast<std::uint8_t*>(rgb.data()), {1, height, width, 3}, at::kByte)
          .permute({0, 3, 1, 2});
  const at::Tensor resized =
      at::_upsample_bicubic2d_aa(picture, {new_height, new_width}, /*align_corners=*/false)
          .permute({0, 2, 3, 1})
          .contiguous();
  const std::uint8_t* first = resized.const_data_ptr<std::uint8_t>();
  return {first, first + resized.numel()};
}

}  // namespace tributary::ops
