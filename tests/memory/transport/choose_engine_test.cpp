#include "memory/transport/choose_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

#include "core/error.h"
#include "tests/memory/built_engines.h"
#include "tests/memory/transport/object_owner.h"

namespace tributary::memory {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Reader kReader{.process = 1, .host_id = {std::byte{1}}};

SegmentRow row_of(std::uint16_t process, Digest host, std::vector<TransportKey> keys) {
  return {.process = process,
          .length = 65536,
          .page_bytes = 65536,
          .host_id = host,
          .keys = std::move(keys)};
}

TEST(ChooseEngine, KnowsHowFarAnOwnerIsAway) {
  EXPECT_EQ(distance_to(row_of(1, kReader.host_id, {}), kReader), Reach::kProcess);
  EXPECT_EQ(distance_to(row_of(2, kReader.host_id, {}), kReader), Reach::kHost);
  EXPECT_EQ(distance_to(row_of(1, {}, {}), kReader), Reach::kNetwork);
}

TEST(ChooseEngine, PrefersTheNearestEngine) {
  EXPECT_THAT(preferred_engines(Reach::kHost, Tier::kDram),
              ElementsAre(Engine::kCudaMap, Engine::kMemfd, Engine::kUcx, Engine::kTcp));
  EXPECT_THAT(preferred_engines(Reach::kNetwork, Tier::kDram),
              ElementsAre(Engine::kUcx, Engine::kTcp));
  EXPECT_THAT(preferred_engines(Reach::kHost, Tier::kHbm), ElementsAre(Engine::kCudaMap));
}

class TwoEngines : public testing::Test {
 protected:
  Result<EngineChoice> choose(const SegmentRow& row, const std::string& against_memfd,
                              std::optional<Engine> required = std::nullopt) {
    Transport* engines[] = {tcp.engine.get(), memfd.engine.get()};
    return choose_engine(
        row, kReader, engines,
        [&](Transport& engine) {
          return engine.traits().engine == Engine::kMemfd ? against_memfd : std::string();
        },
        required);
  }
  Served tcp = open_reader(Engine::kTcp), memfd = open_reader(Engine::kMemfd);
  SegmentRow near =
      row_of(2, kReader.host_id, {endpoint_key(Engine::kTcp, {"10.0.0.1", 1}), memfd_key("/a/b")});
  SegmentRow far = row_of(2, {}, {endpoint_key(Engine::kTcp, {"10.0.0.1", 1}), memfd_key("/a/b")});
};

TEST_F(TwoEngines, AreTakenByDistanceAndProbe) {
  EXPECT_EQ(choose(near, {}).value().engine, memfd.engine.get());
  EXPECT_EQ(choose(far, {}).value().engine, tcp.engine.get());
  const EngineChoice second = choose(near, "no answer").value();
  EXPECT_EQ(second.engine, tcp.engine.get());
  EXPECT_EQ(second.passed_over, "memfd: no answer");
  near.keys.erase(near.keys.begin() + 1);
  EXPECT_EQ(choose(near, {}).value().passed_over, "memfd: not offered by the owner");
}

TEST_F(TwoEngines, AreRefusedWhenNoneReaches) {
  near.tier = Tier::kHbm;
  const auto choice = choose(near, {});
  ASSERT_FALSE(choice.has_value());
  EXPECT_THAT(choice.refusal().reason,
              HasSubstr("segment of process 2, hbm: cuda: not built or not opened"));
}

TEST_F(TwoEngines, StopTheStartWhenTheRequiredOneDoesNotWork) {
  EXPECT_EQ(choose(near, {}, Engine::kMemfd).value().engine, memfd.engine.get());
  EXPECT_THAT([&] { (void)choose(far, {}, Engine::kUcx); },
              testing::ThrowsMessage<Error>(
                  HasSubstr("found: ucx: not built or not opened; expected: ucx")));
}

class Probe : public testing::TestWithParam<Engine> {};

/// Serves in a thread of its own while the probe waits.
Status probe_while_serving(Engine kind, bool is_pattern, bool serves) {
  ObjectOwner owner(4);
  const Served served = serve(kind, owner);
  const ObjectHandle handle =
      is_pattern ? owner.put_bytes(1, probe_pattern(ObjectOwner::kProcess)) : owner.put(1, 65536);
  Served reader = open_reader(kind);
  std::jthread thread([&](const std::stop_token& stop) {
    Poller poller({served.engine.get()});
    while (serves && !stop.stop_requested()) poller.poll_once();
  });
  return probe_engine(*reader.engine, served.row, handle, in_seconds(serves ? 5 : 0.1));
}

TEST_P(Probe, ReadsThePatternOfTheOwner) {
  EXPECT_EQ(probe_while_serving(GetParam(), true, true), Status::kOk);
  EXPECT_EQ(probe_while_serving(GetParam(), false, true), Status::kCorrupt);
  EXPECT_EQ(probe_while_serving(GetParam(), true, false), Status::kTimeout);
}

INSTANTIATE_TEST_SUITE_P(Engines, Probe, testing::ValuesIn(socket_engines()), engine_of_case);

TEST(ProbePattern, DiffersBetweenProcesses) {
  EXPECT_EQ(probe_pattern(1).size(), 65536);
  EXPECT_TRUE(probe_pattern(1) == probe_pattern(1));
  EXPECT_FALSE(probe_pattern(1) == probe_pattern(2));
}

}  // namespace
}  // namespace tributary::memory
