#include "memory/transport/faulty.h"

#include <gtest/gtest.h>

#include "memory/wire/messages.h"
#include "tests/memory/transport/object_owner.h"

namespace tributary::memory {
namespace {

/// An owner, and a reader behind an engine with faults.
struct FaultyReader {
  explicit FaultyReader(std::vector<FaultRule> rules, std::uint64_t seed = 1)
      : engine(std::move(open_reader(Engine::kTcp).engine), std::move(rules), seed),
        poller({served.engine.get(), &engine}) {}

  void connect() {
    poller.poll_once();  // learns the time
    link = engine.connect(served.row, in_seconds(5)).value();
  }
  Status get(double seconds = 5) {
    const TransferId id = engine.post_get(link, handle, into, in_seconds(seconds)).value();
    EXPECT_TRUE(poller.wait_for(id));
    return poller.done[id];
  }
  void send(std::uint64_t step) {
    EXPECT_EQ(engine.post_control(link, FrameType::kHeartbeat, body_of(Heartbeat{.step = step})),
              Status::kOk);
  }
  /// The steps of the heartbeats that have arrived.
  std::vector<std::uint64_t> steps() {
    std::vector<std::uint64_t> all;
    for (const FrameReceived& each : poller.frames)
      all.push_back(
          std::get<Heartbeat>(parse_message(FrameType::kHeartbeat, each.frame.body).value()).step);
    return all;
  }
  bool arrive(const std::vector<std::uint64_t>& expected) {
    return poller.until([&] { return steps() == expected; });
  }

  ObjectOwner owner{4};
  ObjectHandle handle = owner.put(1, 200'000);
  Served served = serve(Engine::kTcp, owner);
  Faulty engine;
  Poller poller;
  PeerLink link{};
  std::vector<std::byte> into = std::vector<std::byte>(200'000);
};

using Steps = std::vector<std::uint64_t>;

TEST(Faulty, ChangesNothingWithoutRules) {
  FaultyReader reader({});
  reader.connect();
  EXPECT_EQ(reader.get(), Status::kOk);
  EXPECT_TRUE(reader.into == make_bytes(1, 200'000));
  reader.send(1);
  reader.send(2);
  EXPECT_TRUE(reader.arrive({1, 2}));
}

TEST(Faulty, RefusesToConnect) {
  FaultyReader reader({{.kind = FaultKind::kRefuse, .type = FrameType::kHello}});
  EXPECT_EQ(reader.engine.connect(reader.served.row, in_seconds(1)).refusal().code, "connect");
}

TEST(Faulty, DropsAGetThatThenEndsAtItsDeadline) {
  FaultyReader reader({{.kind = FaultKind::kDrop, .type = FrameType::kGet}});
  reader.connect();
  EXPECT_EQ(reader.get(/*seconds=*/0.05), Status::kTimeout);
  EXPECT_EQ(reader.engine.count(FaultKind::kDrop), 1);
}

TEST(Faulty, CorruptsAByteThatTheChecksumShows) {
  FaultyReader reader({{.kind = FaultKind::kCorrupt, .type = FrameType::kGet}});
  reader.connect();
  EXPECT_EQ(reader.get(), Status::kCorrupt);
}

TEST(Faulty, DelaysAGet) {
  FaultyReader reader(
      {{.kind = FaultKind::kDelay, .type = FrameType::kGet, .delay = {50'000'000}}});
  reader.connect();
  const Stopwatch waited;
  EXPECT_EQ(reader.get(), Status::kOk);
  EXPECT_GE(waited.seconds(), 0.04);  // counted from the poll before
}

TEST(Faulty, CutsALink) {
  FaultyReader reader({{.kind = FaultKind::kCut, .type = FrameType::kGet}});
  reader.connect();
  EXPECT_EQ(reader.get(), Status::kBackend);
  EXPECT_TRUE(reader.poller.until([&] { return reader.owner.in_use() == 0; }));
}

TEST(Faulty, DropsDuplicatesAndReordersMessages) {
  FaultyReader dropping({{.kind = FaultKind::kDrop, .type = FrameType::kHeartbeat}});
  dropping.connect();
  dropping.send(1);
  EXPECT_EQ(dropping.get(), Status::kOk);  // came after it
  EXPECT_EQ(dropping.steps(), Steps());

  FaultyReader duplicating({{.kind = FaultKind::kDuplicate, .type = FrameType::kHeartbeat}});
  duplicating.connect();
  duplicating.send(1);
  EXPECT_TRUE(duplicating.arrive({1, 1}));

  FaultyReader reordering({{.kind = FaultKind::kReorder, .type = FrameType::kHeartbeat}});
  reordering.connect();
  for (const std::uint64_t step : {1, 2, 3, 4}) reordering.send(step);
  EXPECT_TRUE(reordering.arrive({2, 1, 4, 3}));
}

TEST(Faulty, StallsALinkAndThenGoesOn) {
  FaultyReader reader(
      {{.kind = FaultKind::kStall, .type = FrameType::kHeartbeat, .delay = {50'000'000}}});
  reader.connect();
  const Stopwatch waited;
  reader.send(1);
  EXPECT_EQ(reader.get(), Status::kOk);
  EXPECT_GE(waited.seconds(), 0.04);  // counted from the poll before
  EXPECT_TRUE(reader.arrive({1}));
}

TEST(Faulty, StrikesAlikeWithTheSameSeed) {
  const auto strikes = [](std::uint64_t seed) {
    FaultyReader reader(
        {{.kind = FaultKind::kDrop, .type = FrameType::kHeartbeat, .probability = 0.5}}, seed);
    reader.connect();
    for (std::uint64_t step = 0; step < 40; ++step) reader.send(step);
    EXPECT_EQ(reader.get(), Status::kOk);
    return reader.steps();
  };
  const Steps first = strikes(1);
  EXPECT_GT(first.size(), 5);
  EXPECT_LT(first.size(), 35);
  EXPECT_EQ(strikes(1), first);
  EXPECT_NE(strikes(2), first);
}

}  // namespace
}  // namespace tributary::memory
