#include "data/loader/shape_counts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "core/error.h"
#include "data/loader/survey.h"

namespace tributary::data {
namespace {

constexpr double kMaxSamples = 1LL << 40;  // of one bin, docs/formats/shape_histogram.md

/// Lists what two shapes may differ in, beside their tokens.
std::vector<std::int64_t> list_media(const SampleShape& shape) {
  std::vector<std::int64_t> numbers;
  for (const Modality modality : kMediaModalities)
    numbers.push_back(std::ssize(shape.grids(modality)));
  for (const Modality modality : kMediaModalities)
    for (const Grid& grid : shape.grids(modality))
      numbers.insert(numbers.end(), {grid.time, grid.rows, grid.columns, grid.mosaic.tile_columns,
                                     grid.mosaic.rows, grid.mosaic.columns});
  return numbers;
}

std::int64_t count_samples(const Survey& survey) {
  std::int64_t samples = 0;
  for (const auto& [shape, count] : survey.shapes) samples += count;
  TRIB_REQUIRE(samples > 0, .what = "data: no sample to count shapes of", .where = survey.path,
               .found = str(survey.surveyed, " records inspected: ", survey.bad_records(), " bad, ",
                            survey.too_long, " longer than ", survey.max_tokens),
               .expected = "one sample at least that a run trains on",
               .fix =
                   "raise batch.capacity_tokens or data.max_tokens, lower data.max_pixels, or "
                   "leave the source out",
               .exit = ExitCode::kDataLimit);
  return samples;
}

}  // namespace

bool ShapeOrder::operator()(const SampleShape& a, const SampleShape& b) const {
  const auto sizes_a = std::tie(a.tokens, a.target_tokens);
  const auto sizes_b = std::tie(b.tokens, b.target_tokens);
  return sizes_a != sizes_b ? sizes_a < sizes_b : list_media(a) < list_media(b);
}

config::ShapeHistogram mix_shapes(std::span<const Survey> surveys, const std::string& source) {
  std::map<SampleShape, double, ShapeOrder> drawn;  // relative to the least drawn sample
  double rarest = std::numeric_limits<double>::infinity();
  double most_frequent = 0;
  const auto frequency = [](const Survey& survey) {
    return survey.weight / static_cast<double>(count_samples(survey));
  };
  for (const Survey& survey : surveys) {
    if (survey.weight == 0) continue;
    rarest = std::min(rarest, frequency(survey));
    most_frequent = std::max(most_frequent, frequency(survey));
  }
  for (const Survey& survey : surveys)
    if (survey.weight > 0)
      for (const auto& [shape, count] : survey.shapes)
        drawn[shape] += static_cast<double>(count) * frequency(survey) / rarest;
  double largest = 0;
  for (const auto& [shape, times] : drawn) largest = std::max(largest, times);
  const double unit = most_frequent <= rarest * (1 + 1e-9) ? 1 : 1000;
  const double scale = std::min(unit, kMaxSamples / std::max(largest, 1.0));
  config::ShapeHistogram histogram{.source = source};
  for (const auto& [shape, times] : drawn)
    histogram.bins.push_back(
        {.samples = std::max<std::int64_t>(1, std::llround(times * scale)), .shape = shape});
  return histogram;
}

}  // namespace tributary::data
