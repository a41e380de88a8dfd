#include "cost/convex_profile.h"

#include <gtest/gtest.h>

#include "core/random.h"
#include "cost/profile_costs.h"

namespace tributary::cost {
namespace {

/// Times that go up and down, fast and slow: what a noisy machine measures.
config::Profile rough_profile(std::uint64_t seed) {
  RandomStream random(seed, "convex_profile_test");
  config::Profile profile{.model = "m", .device = "cpu", .memory = {1 << 30}};
  profile.launch = {random.between(0, 20'000)};
  config::ProfileTable table{.module = "backbone", .layer = "block", .threads = 1};
  for (std::int64_t tokens = 0, i = 0; i < 6; ++i) {
    tokens += random.between(50, 400);
    table.points.push_back({.tokens = {tokens},
                            .forward = {random.between(10'000, 900'000)},
                            .input_gradient = {random.between(10'000, 900'000)},
                            .recompute = {random.between(10'000, 900'000)},
                            .activation = {random.between(0, 100'000)}});
  }
  profile.layers.push_back(table);
  config::CollectiveTable reduce{.op = config::CollectiveOp::kAllReduce};
  for (const std::int64_t ranks : {2, 4})
    for (std::int64_t bytes = 1024; bytes <= 1 << 22; bytes *= 4)
      reduce.points.push_back(
          {.ranks = ranks, .bytes = {bytes}, .time = {random.between(100'000, 9'000'000)}});
  profile.collectives.push_back(reduce);
  profile.steps.push_back({.ranks = 1, .threads = 1});
  return profile;
}

TEST(ConvexProfile, IsConvexFromNothingAndNowhereAboveWhatWasMeasured) {
  const config::LayerShape block{.width = 8, .heads = 2, .kv_heads = 2, .head_width = 4};
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const ProfileCosts measured(rough_profile(seed), 1, 1, "p.json");
    const std::shared_ptr<const CostSource> convex = measured.convex();
    const auto layer = [&](const CostSource& costs, double tokens) {
      return costs.layer("backbone", block, {.tokens = tokens}, {}, {});
    };
    const auto reduce = [&](const CostSource& costs, std::int64_t bytes) {
      return costs.collective(config::CollectiveOp::kAllReduce, {.ranks = 4}, {bytes}).count;
    };
    for (const double tokens : {1.0, 40.0, 333.0, 800.0, 1500.0, 5000.0, 90'000.0}) {
      const LayerCost below = layer(*convex, tokens);
      const LayerCost real = layer(measured, tokens);
      EXPECT_LE(below.forward, real.forward) << seed << ", " << tokens << " tokens";
      EXPECT_LE(below.input_gradient, real.input_gradient);
      EXPECT_LE(below.recompute, real.recompute);
      EXPECT_LE(below.activation, real.activation);
      EXPECT_EQ(below.weight_gradient.count, 0) << "nothing stays nothing";
      const auto bytes = static_cast<std::int64_t>(tokens * 997);
      EXPECT_LE(reduce(*convex, bytes), reduce(measured, bytes)) << seed << ", " << bytes << " B";
      for (const double other : {0.0, 100.0, 700.0, 2000.0, 60'000.0}) {
        const double middle = 0.5 * (tokens + other);
        const auto mean = [](std::int64_t a, std::int64_t b) { return 0.5 * double(a + b); };
        EXPECT_LE(double(layer(*convex, middle).forward.count),
                  mean(below.forward.count, layer(*convex, other).forward.count) + 3)
            << seed << ": " << tokens << " and " << other << " tokens";
        EXPECT_LE(
            double(reduce(*convex, static_cast<std::int64_t>(middle * 997))),
            mean(reduce(*convex, bytes), reduce(*convex, static_cast<std::int64_t>(other * 997))) +
                3)
            << seed << ": " << bytes << " B";
      }
    }
  }
}

TEST(ConvexProfile, IsThatWhichWasMeasuredWhereThatIsConvex) {
  config::Profile profile = rough_profile(1);
  auto& points = profile.layers[0].points;
  for (std::size_t i = 0; i < points.size(); ++i) points[i].forward = {10 * points[i].tokens.count};
  const config::Profile convex = convex_below(profile);
  for (std::size_t i = 0; i < points.size(); ++i)
    EXPECT_EQ(convex.layers[0].points[i].forward, points[i].forward);
}

}  // namespace
}  // namespace tributary::cost
