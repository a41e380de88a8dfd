#include "train/metrics/stream_clock.h"

#include <gtest/gtest.h>

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "core/stopwatch.h"

namespace tributary::train {
namespace {

constexpr c10::DeviceType kScripted = c10::DeviceType::PrivateUse1;
double stream_ms = 0;  // where the stream of the scripted device is
int synchronizations = 0;

/// A device whose stream is wherever the test puts it.
struct ScriptedDevice final : c10::impl::DeviceGuardImplInterface {
  [[nodiscard]] c10::DeviceType type() const override { return kScripted; }
  c10::Device exchangeDevice(c10::Device /*device*/) const override { return getDevice(); }
  [[nodiscard]] c10::Device getDevice() const override { return {kScripted, 0}; }
  void setDevice(c10::Device /*device*/) const override {}
  void uncheckedSetDevice(c10::Device /*device*/) const noexcept override {}
  [[nodiscard]] c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  [[nodiscard]] c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  void record(void** event, const c10::Stream& /*stream*/, c10::DeviceIndex /*device*/,
              c10::EventFlag flag) const override {
    EXPECT_EQ(flag, c10::EventFlag::BACKEND_DEFAULT) << "other events have no times";
    *event = new double(stream_ms);
  }
  void destroyEvent(void* event, c10::DeviceIndex /*device*/) const noexcept override {
    delete static_cast<double*>(event);
  }
  [[nodiscard]] bool queryEvent(void* /*event*/) const override { return true; }
  void synchronizeEvent(void* /*event*/) const override { ++synchronizations; }
  double elapsedTime(void* first, void* second, c10::DeviceIndex /*device*/) const override {
    return *static_cast<double*>(second) - *static_cast<double*>(first);
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, ScriptedDevice);

TEST(StreamClock, TellsTheTimesOfTheStream) {
  StreamClock clock(c10::Device(kScripted, 0));
  for (const double ms : {100.0, 350.0, 350.5}) {
    stream_ms = ms;
    clock.mark();
  }
  synchronizations = 0;
  const std::vector<double> times = clock.times();
  EXPECT_EQ(synchronizations, 1) << "the host waits once";
  ASSERT_EQ(times.size(), 3);
  EXPECT_NEAR(times[1] - times[0], 0.25, 1e-9);
  EXPECT_NEAR(times[2] - times[1], 0.0005, 1e-9);
}

TEST(StreamClock, PutsNoMarkBeforeTheHostMadeIt) {
  // The stream has just come out of older work: for it hardly any time passes between the marks.
  StreamClock clock(c10::Device(kScripted, 0));
  const double begin = now_seconds();
  stream_ms = 0;
  clock.mark();
  while (now_seconds() < begin + 0.02) {
  }
  stream_ms = 1;
  clock.mark();
  const std::vector<double> times = clock.times();
  EXPECT_GE(times[1], begin + 0.02);
  EXPECT_NEAR(times[1] - times[0], 0.001, 1e-9);
}

TEST(StreamClock, IsTheHostsOwnOnACpu) {
  StreamClock clock(c10::kCPU);
  const double begin = now_seconds();
  EXPECT_EQ(clock.mark(), 0);
  EXPECT_EQ(clock.mark(), 1);
  const std::vector<double> times = clock.times();
  const double end = now_seconds();
  constexpr double kRounding = 1e-6;
  EXPECT_GE(times[0], begin - kRounding);
  EXPECT_LE(times[0], times[1]);
  EXPECT_LE(times[1], end + kRounding);
}

}  // namespace
}  // namespace tributary::train
