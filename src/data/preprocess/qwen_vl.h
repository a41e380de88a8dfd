#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "data/preprocess/cut_patches.h"
#include "data/preprocess/preprocessor_config.h"
#include "data/sample.h"

namespace tributary::data {

/// The size nearest to `size` whose sides are multiples of `factor` and whose area is in `limits`.
///
/// units:  pixels; halves round to even
/// errors: Refusal `extreme_aspect` when one side is more than 200 times the other, `no_pixels`
///         when a side is below 1
/// source: docs/theory/numerics.md, "Image size"
[[nodiscard]] Result<PictureSize> smart_resize(PictureSize size, std::int64_t factor,
                                               PixelLimits limits);

/// The grid of patches of a picture of this size. Families of tiles cut some pictures otherwise
/// when their sample has several.
[[nodiscard]] Result<Grid> grid_of_image(PictureSize size, const PreprocessorConfig& config,
                                         Company company = Company::kAlone);

/// The grid of patches of a clip of `frames` frames; an odd count repeats the last frame.
[[nodiscard]] Result<Grid> grid_of_clip(PictureSize size, std::int64_t frames,
                                        const PreprocessorConfig& config);

/// The time [s] of each step of a clip that has words of its own in the text, the mean of its
/// frames; empty for models whose clips are one piece in the text.
/// shape: seconds [frames]
[[nodiscard]] std::vector<double> times_of_clip(std::span<const double> seconds,
                                                const PreprocessorConfig& config);

/// The number of backbone positions that an item takes.
[[nodiscard]] std::int64_t merged_tokens(const Grid& grid, const PreprocessorConfig& config);

/// Resizes, normalises and cuts a picture into the rows that the vision tower takes.
///
/// shape:  rows [grid.patches(), patch_width], columns (channel, frame, y, x); the patches of one
///         merged token are consecutive
/// errors: those of smart_resize
/// cost:   one resize, one pass over the resized pixels
/// source: docs/theory/numerics.md, "Resizing pixels" and "Patch rows"
[[nodiscard]] Result<PatchedItem> patch_image(const Picture& picture,
                                              const PreprocessorConfig& config,
                                              const Resize& resize,
                                              Company company = Company::kAlone);

/// As patch_image, for a clip; consecutive frames share a row.
///
/// units:  `fps` are the frames per second of `frames` as given
/// errors: also Refusal `no_frames`, `frame_sizes` when the frames differ in size
[[nodiscard]] Result<PatchedItem> patch_clip(std::span<const Picture> frames, double fps,
                                             const PreprocessorConfig& config,
                                             const Resize& resize);

/// A clip as patch_clip gives it, of a grid that is known, without its rows.
[[nodiscard]] PatchedItem clip_without_rows(const Grid& grid, double fps,
                                            const PreprocessorConfig& config);

}  // namespace tributary::data
