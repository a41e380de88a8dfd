#include "cost/measured_attention.h"

#include <cmath>
#include <gtest/gtest.h>

#include "core/random.h"
#include "cost/convex_profile.h"
#include "cost/profile_costs.h"

namespace tributary::cost {
namespace {

using config::MeasuredAttention;
using config::ProfileTable;

/// A sequence of length l takes a l + b l^2 in forward, and twice that in backward.
struct Law {
  double item = 40;   // [ns] a
  double pair = 0.7;  // [ns] b
  [[nodiscard]] double time(double items, double pairs) const {
    return item * items + pair * pairs;
  }
};

/// Points of packs of 4096 items in sequences of one length each.
std::vector<MeasuredAttention> measure(const Law& law, const std::vector<double>& lengths) {
  std::vector<MeasuredAttention> points;
  for (const double length : lengths) {
    const double forward = law.time(4096, 4096 * length);
    points.push_back({.attended = length,
                      .tokens = {4096},
                      .forward = {std::llround(forward)},
                      .gradient = {std::llround(2 * forward)}});
  }
  return points;
}

PassShape pack_of(const std::vector<double>& lengths) {
  PassShape pass{.tokens = 0, .squared_tokens = 0, .sequences = std::ssize(lengths)};
  for (const double length : lengths) {
    pass.tokens += length;
    pass.squared_tokens += length * length;
  }
  return pass;
}

TEST(MeasuredAttention, TellsPacksApartWhoseLengthsWereNotMeasured) {
  const Law law;
  const auto points = raise_attention(measure(law, {16, 64, 256, 1024, 4096}));
  for (const std::vector<double>& lengths :
       {std::vector<double>(16, 100.0), {1600.0}, {1000, 300, 200, 100}, {40, 1560}}) {
    const PassShape pass = pack_of(lengths);
    const AttentionTime time = attention_time(points, pass);
    const double expected = law.time(pass.tokens, pass.squared_tokens);
    EXPECT_NEAR(time.forward, expected, 1e-3 * expected) << lengths.size() << " sequences";
    EXPECT_NEAR(time.gradient, 2 * expected, 2e-3 * expected);
    EXPECT_FALSE(time.outside_grid);
  }
}

TEST(MeasuredAttention, GrowsInProportionBeyondTheLongestAndStaysBelowTheShortest) {
  const auto points = raise_attention(measure({.item = 0, .pair = 1}, {64, 256}));
  EXPECT_NEAR(attention_time(points, pack_of({512})).forward, 512.0 * 512, 1);
  EXPECT_TRUE(attention_time(points, pack_of({512})).outside_grid);
  EXPECT_NEAR(attention_time(points, pack_of({8, 8})).forward, 16.0 * 64, 1)
      << "calls of short sequences cost as much as those of the shortest measured";
  EXPECT_EQ(attention_time({}, pack_of({512})).forward, 0);
  EXPECT_EQ(attention_time(points, {.tokens = 0}).forward, 0);
}

TEST(MeasuredAttention, RaisesWhatNoiseLoweredAndJoinsEqualLengths) {
  std::vector<MeasuredAttention> points{
      {.attended = 10, .tokens = {100}, .forward = {1000}, .gradient = {100}},
      {.attended = 20, .tokens = {100}, .forward = {3000}, .gradient = {200}},
      {.attended = 20, .tokens = {300}, .forward = {3000}, .gradient = {600}},
      {.attended = 30, .tokens = {400}, .forward = {5200}, .gradient = {2000}}};
  const auto raised = raise_attention(points);
  ASSERT_EQ(raised.size(), 3U);
  const auto forward = [&](std::size_t i) {
    return double(raised[i].forward.count) / double(raised[i].tokens.count);
  };
  EXPECT_NEAR(forward(0), 10, 1e-5);
  EXPECT_NEAR(forward(1), 14, 1e-5) << "6000 ns for 400 items, and 5200 for 400 more";
  EXPECT_NEAR(forward(2), 14, 1e-5);
  EXPECT_NEAR(double(raised[1].gradient.count) / double(raised[1].tokens.count), 2, 1e-5);
  EXPECT_EQ(raise_attention(raised), raised) << "nothing to mend";
}

config::Profile profile_with(std::vector<MeasuredAttention> attention) {
  config::Profile profile{.model = "m", .device = "cpu", .memory = {1 << 30}};
  ProfileTable table{.module = "backbone", .layer = "block", .threads = 1};
  for (const std::int64_t tokens : {512, 1024, 4096})
    table.points.push_back({.tokens = {tokens},
                            .forward = {1000 * tokens},
                            .input_gradient = {1100 * tokens},
                            .weight_gradient = {900 * tokens},
                            .recompute = {1000 * tokens}});
  table.attention = std::move(attention);
  profile.layers.push_back(table);
  table.module = "vision";
  table.layer = "window_block";
  profile.layers.push_back(table);
  profile.steps.push_back({.ranks = 1, .threads = 1});
  return profile;
}

const config::LayerShape kPlainBlock{.width = 8, .heads = 2, .kv_heads = 2, .head_width = 4};

TEST(ProfileCosts, AddsTheAttentionOfTheLengthsToTheLayer) {
  const Law law;
  const ProfileCosts costs(profile_with(measure(law, {16, 128, 1024, 4096})), 1, 1, "p.json");
  const auto layer = [&](const std::vector<double>& lengths, Training training = {}) {
    return costs.layer("backbone", kPlainBlock, pack_of(lengths), {}, training);
  };
  const LayerCost many = layer(std::vector<double>(16, 128.0));
  const LayerCost one = layer({2048});
  for (const auto& [cost, pairs] : {std::pair(many, 16 * 128.0 * 128), {one, 2048.0 * 2048}}) {
    const double attention = law.time(2048, pairs);
    EXPECT_NEAR(double(cost.attention_forward.count), attention, 1e-3 * attention);
    EXPECT_NEAR(double(cost.forward.count), 2048e3 + attention, 1e-3 * attention);
    EXPECT_NEAR(double(cost.input_gradient.count), 2048 * 1100.0 + 2 * attention, 2e-3 * attention);
    EXPECT_EQ(cost.weight_gradient.count, 2048 * 900) << "weights do not attend";
    EXPECT_EQ(cost.recompute, cost.forward);
    EXPECT_EQ(cost.recompute_selective.count, 2048e3) << "what attention gave is kept";
  }
  EXPECT_EQ(layer({2048}, {.trains = false, .needs_input_grad = false}).input_gradient.count, 0);
  EXPECT_FALSE(one.outside_grid);
  EXPECT_EQ(costs.measured_attended("backbone", kPlainBlock, 1), 4096);
}

TEST(ProfileCosts, LetsItemsOfAWindowAttendWithIt) {
  const Law law;
  const ProfileCosts costs(profile_with(measure(law, {16, 64, 1024})), 1, 1, "p.json");
  config::LayerShape windowed = kPlainBlock;
  windowed.window = 64;
  windowed.causal = false;
  const auto attention = [&](const std::vector<double>& frames) {
    return double(costs.layer("vision", windowed, pack_of(frames), {}, {}).attention_forward.count);
  };
  EXPECT_NEAR(attention({1024}), law.time(1024, 1024 * 64), 10);
  EXPECT_NEAR(attention(std::vector<double>(32, 32.0)), law.time(1024, 1024 * 32), 10)
      << "frames smaller than a window";
}

TEST(ProfileCosts, TakesTimeByTokensAloneWhereAttentionWasNotApart) {
  const ProfileCosts costs(profile_with({}), 1, 1, "p.json");
  const auto forward = [&](const std::vector<double>& lengths) {
    return costs.layer("backbone", kPlainBlock, pack_of(lengths), {}, {}).forward;
  };
  EXPECT_EQ(forward({2048}), forward(std::vector<double>(16, 128.0)));
}

/// Bounds take the mean of passes, so their costs must be convex in tokens and pairs together.
TEST(ConvexProfile, IsConvexInTokensAndPairs) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    RandomStream random(seed, "measured_attention_test");
    std::vector<MeasuredAttention> points;
    for (double attended = 8; attended < 3000; attended *= 2.7)
      points.push_back({.attended = attended,
                        .tokens = {random.between(500, 4000)},
                        .forward = {random.between(10'000, 9'000'000)},
                        .gradient = {random.between(10'000, 9'000'000)}});
    const ProfileCosts measured(profile_with(points), 1, 1, "p.json");
    const auto convex = measured.convex();
    const auto draw = [&] {
      const double tokens = double(random.between(1, 9000));
      return PassShape{.tokens = tokens,
                       .squared_tokens = tokens * double(random.between(1, 5000))};
    };
    const auto forward = [](const CostSource& costs, const PassShape& pass) {
      return double(costs.layer("backbone", kPlainBlock, pass, {}, {}).forward.count);
    };
    for (int i = 0; i < 60; ++i) {
      const PassShape a = draw();
      const PassShape b = draw();
      const PassShape mean{.tokens = (a.tokens + b.tokens) / 2,
                           .squared_tokens = (a.squared_tokens + b.squared_tokens) / 2};
      EXPECT_LE(forward(*convex, a), forward(measured, a) + 1) << "seed " << seed;
      EXPECT_LE(forward(*convex, mean), (forward(*convex, a) + forward(*convex, b)) / 2 + 4)
          << "seed " << seed << ": " << a.tokens << " and " << b.tokens << " tokens";
    }
  }
}

}  // namespace
}  // namespace tributary::cost
