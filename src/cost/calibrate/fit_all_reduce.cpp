#include <array>
#include <bit>
#include <cmath>

#include "core/error.h"
#include "cost/calibrate/calibrate.h"
#include "cost/calibrate/least_squares.h"
#include "cost/collective_cost.h"

namespace tributary::cost {
namespace {

using config::LinkLevel;

struct LevelConstant {
  double LinkLevel::*field;
  FitParameter search;
};

/// Hops start at the values of NCCL's own tuning table for a ring over NVLink: 3.4 us, and 1.9 us
/// for the low-latency protocol of 128-byte lines. Sweeps of few group sizes hardly determine them.
std::array<LevelConstant, 7> constants_of(const LinkLevel& start) {
  const double byte = start.seconds_per_byte > 0 ? start.seconds_per_byte : 1 / start.bytes_per_s;
  return {{
      {&LinkLevel::start_s, {.start = 50e-6, .spread = 0.5, .min = 1e-9, .max = 1}},
      {&LinkLevel::hop_s, {.start = 3.4e-6, .spread = 0.15, .min = 1e-9, .max = 1}},
      {&LinkLevel::low_latency_start_s, {.start = 30e-6, .spread = 0.5, .min = 1e-9, .max = 1}},
      {&LinkLevel::low_latency_hop_s, {.start = 1.9e-6, .spread = 0.15, .min = 1e-9, .max = 1}},
      {&LinkLevel::low_latency_slowdown, {.start = 1.1, .spread = 0.1, .min = 1, .max = 4}},
      {&LinkLevel::seconds_per_byte, {.start = byte, .spread = 1, .min = 1e-15, .max = 1}},
      {&LinkLevel::seconds_per_byte_pair, {.start = byte / 5, .spread = 1, .min = 1e-16, .max = 1}},
  }};
}

constexpr double kLargestSmall = 16 << 20;  // bytes

}  // namespace

LinkLevel fit_all_reduce(const LinkLevel& start, std::span<const AllReduceSweep> sweeps) {
  TRIB_REQUIRE(!sweeps.empty(), .what = "cost: no sweep to fit");
  for (const AllReduceSweep& sweep : sweeps)
    TRIB_REQUIRE(sweep.points.front().ranks <= start.ranks,
                 .what = "cost: sweep of more ranks than a node has", .where = sweep.source,
                 .found = str(sweep.points.front().ranks, " ranks"),
                 .expected = str("at most the ", start.ranks, " of level ", start.name),
                 .fix = "take it out of the directory, or give a --base with larger nodes");
  const auto constants = constants_of(start);
  std::vector<FitParameter> parameters;
  for (const LevelConstant& constant : constants) parameters.push_back(constant.search);
  std::vector<const config::CollectivePoint*> points;
  for (const AllReduceSweep& sweep : sweeps)
    for (const config::CollectivePoint& point : sweep.points) points.push_back(&point);
  std::vector<double> weights;  // the upper octaves have more points
  for (const config::CollectivePoint* point : points)
    weights.push_back(std::pow(8.0 * (1 << 20) / static_cast<double>(point->bytes.count), 0.35));
  const auto with = [&](std::span<const double> values) {
    LinkLevel level = start;
    for (std::size_t i = 0; i < constants.size(); ++i) level.*constants[i].field = values[i];
    return level;
  };
  const Fit fit = fit_least_squares(
      parameters, points.size(),
      [&](std::span<const double> values, std::span<double> out) {
        const LinkLevel level = with(values);
        for (std::size_t i = 0; i < points.size(); ++i) {
          const double predicted = all_reduce_seconds(level, points[i]->ranks,
                                                      static_cast<double>(points[i]->bytes.count));
          out[i] = weights[i] * std::log(predicted / seconds_of(points[i]->time));
        }
      },
      {.iterations = 100, .robust_scale = 0.05, .prior_weight = 0.1});
  return with(fit.values);
}

std::vector<config::CollectivePoint> small_points(std::span<const AllReduceSweep> sweeps) {
  std::vector<config::CollectivePoint> points;
  for (const AllReduceSweep& sweep : sweeps) {
    for (const config::CollectivePoint& point : sweep.points) {
      const auto bytes = static_cast<std::uint64_t>(point.bytes.count);
      if (static_cast<double>(bytes) > kLargestSmall) break;
      const bool kept =
          std::has_single_bit(bytes) || (bytes % 3 == 0 && std::has_single_bit(bytes / 3));
      if (kept) points.push_back(point);
    }
  }
  return points;
}

}  // namespace tributary::cost
