#include "plan/sharing/fit_interference.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"

namespace tributary::plan {
namespace {

using Form = Interference::Form;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Co-locations of 2 to 4 modules that follow a law, with noise on the measured time.
std::vector<CoLocation> measure(std::uint64_t seed, const Interference& law, double noise,
                                std::int64_t count) {
  RandomStream random(seed, "co-location");
  std::vector<CoLocation> points;
  for (std::int64_t index = 0; index < count; ++index) {
    CoLocation point;
    DeviceTraffic traffic;
    for (std::int64_t module = random.between(2, 4); module > 0; --module) {
      point.bandwidth.push_back(0.6 * random.uniform());
      traffic.add(point.bandwidth.back());
    }
    point.alone = {random.between(1'000'000, 100'000'000)};
    const auto exact =
        static_cast<double>(slowed(law, point.alone, point.bandwidth.front(), traffic).count);
    point.together = {std::llround(exact * (1 + noise * random.normal()))};
    points.push_back(point);
  }
  return points;
}

TEST(FitInterference, FindsPlantedFactorsExactlyWithoutNoise) {
  const Interference relative = {Form::kPairwise, 0.03, 0.12, 0.4};
  const InterferenceFit found = fit_interference(measure(1, relative, 0, 90), Form::kPairwise);
  EXPECT_NEAR(found.interference.base, 0.03, 1e-6);
  EXPECT_NEAR(found.interference.sum, 0.12, 1e-6);
  EXPECT_NEAR(found.interference.pair, 0.4, 1e-6);
  EXPECT_LT(found.error, 1e-6);
  EXPECT_EQ(found.held_out, 30);
  const Interference published = {Form::kPublished, 2e5, 3e6, 5e6};
  const InterferenceFit absolute = fit_interference(measure(2, published, 0, 90), Form::kPublished);
  EXPECT_NEAR(absolute.interference.base, 2e5, 10);
  EXPECT_NEAR(absolute.interference.sum, 3e6, 10);
  EXPECT_NEAR(absolute.interference.pair, 5e6, 10);
}

TEST(FitInterference, FindsPlantedFactorsWithinNoise) {
  const Interference law = {Form::kPairwise, 0.03, 0.12, 0.4};
  double error = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const InterferenceFit found = fit_interference(measure(seed, law, 0.01, 600), Form::kPairwise);
    EXPECT_NEAR(found.interference.base, 0.03, 0.01);
    EXPECT_NEAR(found.interference.sum, 0.12, 0.03);
    EXPECT_NEAR(found.interference.pair, 0.4, 0.06);
    error += found.error / 20;
  }
  // The mean of |noise| of one per cent.
  EXPECT_NEAR(error, 0.01 * std::sqrt(2 / std::acos(-1)), 0.001);
}

TEST(FitInterference, KeepsFactorsAtZeroOrAbove) {
  const Interference law = {Form::kPairwise, 0, 0.2, 0};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Interference found =
        fit_interference(measure(seed, law, 0.02, 60), Form::kPairwise).interference;
    EXPECT_GE(found.base, 0);
    EXPECT_GE(found.sum, 0);
    EXPECT_GE(found.pair, 0);
  }
  const std::vector<CoLocation> faster(6, {{100}, {90}, {0.1, 0.2}});
  EXPECT_EQ(fit_interference(faster, Form::kPairwise).interference.sum, 0);
}

TEST(FitInterference, ChoosesTheFormThatPredictsTheRest) {
  const Interference relative = {Form::kPairwise, 0.03, 0.3, 0.4};
  EXPECT_EQ(fit_interference(measure(3, relative, 0.01, 90)).interference.form, Form::kPairwise);
  const Interference published = {Form::kPublished, 2e6, 3e7, 5e6};
  EXPECT_EQ(fit_interference(measure(4, published, 0.01, 90)).interference.form, Form::kPublished);
}

TEST(FitInterference, NamesWhatCannotBeUsed) {
  std::vector<CoLocation> points(6, {{100}, {110}, {0.1, 0.2}});
  EXPECT_THAT([&] { (void)fit_interference(std::span(points).first(5)); },
              ThrowsMessage<Error>(HasSubstr("found: 5; expected: at least 6")));
  EXPECT_THAT([&] { (void)fit_interference(points, Form::kNone); },
              ThrowsMessage<Error>(HasSubstr("form without factors")));
  points[3].bandwidth = {0.5};
  EXPECT_THAT([&] { (void)fit_interference(points); },
              ThrowsMessage<Error>(HasSubstr("where: point 3; found: 1 modules")));
  points[3].bandwidth = {0.5, std::nan("")};
  EXPECT_THAT([&] { (void)fit_interference(points); },
              ThrowsMessage<Error>(HasSubstr("where: point 3; found: bandwidth nan")));
  points[2].together = {0};
  EXPECT_THAT(
      [&] { (void)fit_interference(points); },
      ThrowsMessage<Error>(HasSubstr("where: point 2; found: 100 ns alone, 0 ns together")));
}

}  // namespace
}  // namespace tributary::plan
