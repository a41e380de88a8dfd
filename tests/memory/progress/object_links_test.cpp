// A reader of one owner that offers its memory by two engines, of which the first one fails on
// purpose. Time is a parameter, so that nothing here waits.

#include "memory/progress/object_links.h"

#include <gmock/gmock.h>

#include "memory/transport/faulty.h"
#include "tests/memory/built_engines.h"
#include "tests/memory/transport/object_owner.h"

namespace tributary::memory {
namespace {

constexpr Digest kHost{std::byte{1}};
constexpr Nanoseconds kHalfSecond{500'000'000};

class TwoEngines : public testing::TestWithParam<Engine> {
 protected:
  /// Reads with the engine of this test, which has these faults, and with TCP.
  void start(std::vector<FaultRule> faults) {
    row = first.row;
    row.host_id = kHost;
    row.keys.insert(row.keys.end(), second.row.keys.begin(), second.row.keys.end());
    std::vector<std::unique_ptr<Transport>> engines;
    engines.push_back(
        std::make_unique<Faulty>(open_reader(GetParam()).engine, std::move(faults), 1));
    engines.push_back(open_reader(Engine::kTcp).engine);
    links.emplace(Reader{.process = 1, .host_id = kHost}, std::move(engines));
  }
  [[nodiscard]] TimePoint then() const { return now() + passed; }
  /// Reads an object; the status with which that ended.
  Status get(const ObjectHandle& handle, Nanoseconds passes = {}) {
    std::optional<Status> ended;
    into.assign(handle.fields.bytes, std::byte{0});
    links->get(
        ++request, row, handle, [this](Engine) { return std::span(into); }, then());
    passed = passed + passes;
    EXPECT_TRUE(owners.until([&] {
      links->poll(then(), [&](const GetDone& done) {
        EXPECT_EQ(done.request, request);
        ended = done.status;
      });
      return ended.has_value();
    }));
    return ended.value_or(Status::kBusy);
  }
  [[nodiscard]] bool reads_with(Engine engine) {
    return links->engines() == std::map<std::uint16_t, Engine>{{ObjectOwner::kProcess, engine}};
  }

  ObjectOwner owner{64};
  ObjectHandle object = owner.put(1, 200'000);
  Served first = serve(GetParam(), owner), second = serve(Engine::kTcp, owner);
  Poller owners{{first.engine.get(), second.engine.get()}};
  SegmentRow row;
  std::vector<std::byte> into;
  std::optional<ObjectLinks> links;
  std::uint64_t request = 0;
  Nanoseconds passed{};
};

TEST_P(TwoEngines, ReadWithTheFirstOneAsLongAsItWorks) {
  start({});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(get(object), Status::kOk);
  EXPECT_TRUE(reads_with(GetParam()));
}

TEST_P(TwoEngines, ReadWithTheNextOneWhenALinkBreaks) {
  start({{.kind = FaultKind::kCut, .type = FrameType::kGet}});
  EXPECT_NE(get(object), Status::kOk);
  EXPECT_EQ(get(object), Status::kOk);
  EXPECT_TRUE(into == make_bytes(1, 200'000));
  EXPECT_TRUE(reads_with(Engine::kTcp));
}

TEST_P(TwoEngines, BlameNoneForALinkThatEndsWhileNothingIsUnderWay) {
  start({});
  EXPECT_EQ(get(object), Status::kOk);
  testing::internal::CaptureStderr();
  owners = Poller({second.engine.get()});
  first.engine.reset();
  EXPECT_TRUE(owners.until([&] {
    links->poll(then(), [](const GetDone&) {});
    return links->engines().empty();
  }));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::Not(testing::HasSubstr("rests")));
  // Some engines learn only by a GET that nobody is there.
  EXPECT_TRUE(get(object) == Status::kOk || get(object) == Status::kOk);
  EXPECT_TRUE(reads_with(Engine::kTcp));
}

TEST_P(TwoEngines, ReadWithTheNextOneWhenNothingComes) {
  start({{.kind = FaultKind::kDrop, .type = FrameType::kGet}});
  EXPECT_EQ(get(object, kHalfSecond * 6), Status::kTimeout);
  EXPECT_EQ(get(object), Status::kOk);
  EXPECT_TRUE(reads_with(Engine::kTcp));
}

TEST_P(TwoEngines, ReadWithTheNextOneWhenBytesAreWrong) {
  start({{.kind = FaultKind::kCorrupt, .type = FrameType::kGet}});
  EXPECT_EQ(get(object), Status::kCorrupt);
  EXPECT_EQ(get(object), Status::kOk);
  EXPECT_TRUE(into == make_bytes(1, 200'000));
}

TEST_P(TwoEngines, ReadWithTheNextOneWhenTheFirstIsRefused) {
  start({{.kind = FaultKind::kRefuse}});
  EXPECT_EQ(get(object), Status::kOk);
  EXPECT_TRUE(reads_with(Engine::kTcp));
}

TEST_P(TwoEngines, KeepTheirLinkWhenTheOwnerRefuses) {
  start({});
  EXPECT_EQ(get(object), Status::kOk);
  owner.objects.retire_through(1);
  EXPECT_EQ(get(object), Status::kStale);
  EXPECT_TRUE(reads_with(GetParam()));
}

TEST_P(TwoEngines, LetTheFirstOneTryAgainAfterARestThatGrows) {
  start({{.kind = FaultKind::kDrop, .type = FrameType::kGet}});
  const auto tries_first = [&] {
    EXPECT_EQ(get(object, kHalfSecond * 6), Status::kTimeout);
    EXPECT_EQ(get(object), Status::kOk);
    EXPECT_TRUE(reads_with(Engine::kTcp));
  };
  tries_first();
  passed = passed + kHalfSecond * 3;
  tries_first();
  passed = passed + kHalfSecond * 3;
  EXPECT_EQ(get(object), Status::kOk);  // it rests for 2 s now
  EXPECT_TRUE(reads_with(Engine::kTcp));
  passed = passed + kHalfSecond * 2;
  tries_first();
}

/// Reads from an owner with a device, with the engine `cuda` and with TCP.
class DeviceAndHost : public TwoEngines {
 protected:
  void start_on(const std::shared_ptr<HostDevice>& device) {
    start({});
    std::vector<std::unique_ptr<Transport>> engines;
    engines.push_back(open_reader(Engine::kCudaMap, {.device = device}).engine);
    engines.push_back(open_reader(Engine::kTcp).engine);
    links.emplace(Reader{.process = 1, .host_id = kHost}, std::move(engines));
  }
};

TEST_P(DeviceAndHost, ReadOverTheHostWithoutAccessToTheDevice) {
  start_on(std::make_shared<HostDevice>(3));
  testing::internal::CaptureStderr();
  EXPECT_EQ(get(object), Status::kOk);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("is read by tcp (cuda: device 3 has no access to device 1)"));
  EXPECT_TRUE(into == make_bytes(1, 200'000));
}

TEST_P(DeviceAndHost, ReadOverTheHostWhenTheDeviceFails) {
  const auto device = std::make_shared<HostDevice>(2, std::set{ObjectOwner::kDevice});
  start_on(device);
  EXPECT_EQ(get(object), Status::kOk);
  EXPECT_TRUE(reads_with(Engine::kCudaMap));
  device->is_broken = true;
  EXPECT_EQ(get(object), Status::kBackend);
  EXPECT_EQ(get(object), Status::kOk);
  EXPECT_TRUE(into == make_bytes(1, 200'000));
  EXPECT_TRUE(reads_with(Engine::kTcp));
}

TEST_P(DeviceAndHost, ReadOverTheNetworkFromAnotherMachine) {
  start_on(std::make_shared<HostDevice>(2, std::set{ObjectOwner::kDevice}));
  row.host_id = {};
  EXPECT_EQ(get(object), Status::kOk);
  EXPECT_TRUE(reads_with(Engine::kTcp));
}

INSTANTIATE_TEST_SUITE_P(Engines, DeviceAndHost, testing::Values(Engine::kCudaMap), engine_of_case);
INSTANTIATE_TEST_SUITE_P(Engines, TwoEngines, testing::ValuesIn([] {
                           std::vector<Engine> engines = socket_engines();
                           std::erase(engines, Engine::kTcp);
                           return engines;
                         }()),
                         engine_of_case);

}  // namespace
}  // namespace tributary::memory
