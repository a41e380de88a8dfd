#include "model/encoder/patch_layout.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/error.h"
#include "ops/to_device.h"

namespace tributary::model {
namespace {

constexpr double kRotaryTheta = 10000.0;

/// Angles of every patch: the first half of them by its row, the second by its column.
///
/// shape: returns [patches, head_width / 2] f32
at::Tensor rotary_angles(const WindowIndex& index, std::int64_t head_width) {
  const std::int64_t half = head_width / 2;
  // f32 throughout, in the reference's order of operations.
  const at::Tensor exponent = at::arange(0, half, 2, at::kFloat).div(static_cast<double>(half));
  const at::Tensor frequency = at::pow(kRotaryTheta, exponent).reciprocal();
  const auto angles = [&](const std::vector<std::int64_t>& positions) {
    return at::tensor(positions, at::kFloat).unsqueeze(1).mul(frequency);
  };
  return at::cat({angles(index.patch_rows), angles(index.patch_columns)}, 1);
}

/// The order in which merged tokens lie in windows; null when it is the order they come in.
std::optional<ops::RowOrder> order_of(const std::vector<std::int64_t>& order, at::Device device) {
  if (std::ranges::is_sorted(order)) return {};
  std::vector<std::int64_t> place_of(order.size());
  for (std::size_t place = 0; place < order.size(); ++place)
    place_of[static_cast<std::size_t>(order[place])] = static_cast<std::int64_t>(place);
  return ops::RowOrder{.row_at = ops::to_device(at::tensor(order, at::kLong), device),
                       .place_of = ops::to_device(at::tensor(place_of, at::kLong), device)};
}

/// Where a patch lies along one side of a table of `side` entries: the entry before it, the one
/// after it, and how far it is beyond the first, as transformers interpolates.
struct Between {
  std::int64_t before;
  std::int64_t after;
  float beyond;
};

Between place_between(std::int64_t patch, std::int64_t patches, std::int64_t side) {
  const auto last = static_cast<float>(side - 1);
  const auto steps = static_cast<float>(std::max<std::int64_t>(patches - 1, 1));
  const float at = static_cast<float>(patch) * last / steps;
  const auto before = static_cast<std::int64_t>(at);
  return {before, std::min(before + 1, side - 1), at - static_cast<float>(before)};
}

/// A tower with such a table has no windows: patches lie in `index` as their rows come.
PositionTaps find_taps(std::span<const Grid> grids, const WindowIndex& index,
                       const config::VisionConfig& config, at::Device device) {
  TRIB_CHECK(config.window == 0, .what = "model: tower has windows and a table of positions");
  std::vector<std::vector<std::int64_t>> rows(4);
  std::vector<std::vector<float>> weights(4);
  const std::int64_t side = config.positions_side;
  const auto add = [&](std::size_t tap, std::int64_t row, float weight) {
    rows[tap].push_back(row);
    weights[tap].push_back(weight);
  };
  std::size_t patch = 0;
  for (const Grid& grid : grids)
    for (std::int64_t i = 0; i < grid.patches(); ++i, ++patch) {
      const Between y = place_between(index.patch_rows[patch], grid.rows, side);
      const Between x = place_between(index.patch_columns[patch], grid.columns, side);
      add(0, y.before * side + x.before, (1 - y.beyond) * (1 - x.beyond));
      add(1, y.before * side + x.after, (1 - y.beyond) * x.beyond);
      add(2, y.after * side + x.before, y.beyond * (1 - x.beyond));
      add(3, y.after * side + x.after, y.beyond * x.beyond);
    }
  std::vector<at::Tensor> row_taps;
  std::vector<at::Tensor> weight_taps;
  for (std::size_t tap = 0; tap < rows.size(); ++tap) {
    row_taps.push_back(at::tensor(rows[tap], at::kLong));
    weight_taps.push_back(at::tensor(weights[tap], at::kFloat));
  }
  return {.rows = ops::to_device(at::stack(row_taps), device),
          .weights = ops::to_device(at::stack(weight_taps), device)};
}

}  // namespace

PatchLayout::PatchLayout(std::span<const Grid> of, const config::VisionConfig& config,
                         at::Device on)
    : PatchLayout(of, config,
                  index_windows(of, config.merge, config.window / config.patch / config.merge),
                  on) {}

PatchLayout::PatchLayout(std::span<const Grid> of, const config::VisionConfig& config,
                         const WindowIndex& index, at::Device on)
    : grids(of.begin(), of.end()),
      device(on),
      windows(index.cu_windows, ops::Mask::kNone, on),
      frames(index.cu_frames, ops::Mask::kNone, on),
      rotary(ops::make_rotary_table(
          ops::to_device(rotary_angles(index, config.width / config.heads), on), at::kFloat)),
      order(order_of(index.order, on)) {
  if (config.positions_side > 0) taps = find_taps(of, index, config, on);
}

}  // namespace tributary::model
