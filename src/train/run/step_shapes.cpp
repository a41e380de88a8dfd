#include "train/run/step_shapes.h"

#include <array>
#include <nlohmann/json.hpp>

namespace tributary::train {
namespace {

using Sums = std::array<std::int64_t, 6>;

void add_sample(const SampleShape& sample, Sums& sums) {
  sums[0] += sample.tokens.count;
  sums[1] += sample.tokens.count * sample.tokens.count;
  sums[2] += 1;
  for (const std::vector<Grid>* grids : {&sample.images, &sample.videos}) {
    for (const Grid& grid : *grids) {
      const std::int64_t frame = grid.rows * grid.columns;
      sums[3] += grid.patches();
      sums[4] += grid.time * frame * frame;
      sums[5] += grid.time;
    }
  }
}

}  // namespace

Json describe_shapes(std::int64_t step, std::span<const SampleShape> samples,
                     const schedule::PackedBins& microbatches) {
  Json list = Json::array();
  for (std::int64_t bin = 0; bin < microbatches.bins(); ++bin) {
    Sums sums{};
    for (const std::int32_t member : microbatches.bin(bin))
      add_sample(samples[static_cast<std::size_t>(member)], sums);
    list.push_back(sums);
  }
  return {{"step", step}, {"microbatches", std::move(list)}};
}

}  // namespace tributary::train
