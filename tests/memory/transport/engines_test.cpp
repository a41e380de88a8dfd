// What every engine over sockets must do; each test runs with each of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/memory/built_engines.h"
#include "tests/memory/transport/object_owner.h"

namespace tributary::memory {
namespace {

using testing::HasSubstr;

class SocketEngine : public testing::TestWithParam<Engine> {
 protected:
  explicit SocketEngine(std::uint32_t pages = 160)
      : owner(pages),
        serving(serve(GetParam(), owner)),
        reading(open_reader(GetParam())),
        poller({serving.engine.get(), reading.engine.get()}),
        link(reading.engine->connect(serving.row, in_seconds(5)).value()) {}

  TransferId post(const ObjectHandle& handle, std::vector<std::byte>& into, double seconds = 5) {
    into.assign(handle.fields.bytes, std::byte{0});
    return reading.engine->post_get(link, handle, into, in_seconds(seconds)).value();
  }
  Status get(const ObjectHandle& handle, std::vector<std::byte>& into) {
    const TransferId id = post(handle, into);
    EXPECT_TRUE(poller.wait_for(id));
    return poller.done[id];
  }
  /// Takes back what the owner sealed for steps up to this one.
  void free_through(std::uint64_t step) { owner.objects.retire_through(step); }

  ObjectOwner owner;
  Served serving, reading;
  Poller poller;
  PeerLink link;
};

TEST_P(SocketEngine, BringsTheBytesOfEverySize) {  // I23
  std::uint64_t sample = 0;
  for (const std::uint64_t bytes : {1, 8, 4095, 4096, 4097, 65536, 1 << 20, (8 << 20) + 1}) {
    SCOPED_TRACE(str(bytes, " bytes"));
    const ObjectHandle handle = owner.put(++sample, bytes);
    std::vector<std::byte> into;
    EXPECT_EQ(get(handle, into), Status::kOk);
    EXPECT_TRUE(into == make_bytes(sample, bytes));
    free_through(sample);
  }
  EXPECT_TRUE(poller.until([&] { return owner.in_use() == 0; }));
  EXPECT_EQ(owner.objects.arena().used_pages(), 0);
}

TEST_P(SocketEngine, BringsManyObjectsAtOnce) {
  std::vector<std::vector<std::byte>> into(100);
  std::vector<TransferId> ids;
  for (std::uint64_t i = 0; i < into.size(); ++i)
    ids.push_back(post(owner.put(i + 1, 1000 * (i + 1)), into[i]));
  for (std::uint64_t i = 0; i < into.size(); ++i) {
    ASSERT_TRUE(poller.wait_for(ids[i]));
    EXPECT_EQ(poller.done[ids[i]], Status::kOk);
    EXPECT_TRUE(into[i] == make_bytes(i + 1, 1000 * (i + 1)));
  }
  EXPECT_TRUE(poller.until([&] { return owner.in_use() == 0; }));
}

class FragmentedSocketEngine : public SocketEngine {
 protected:
  FragmentedSocketEngine() : SocketEngine(64) { owner.fragment(); }
};

TEST_P(FragmentedSocketEngine, BringsObjectsOfManyExtents) {  // I23
  for (const std::uint64_t pages : {2, 8, 12}) {
    SCOPED_TRACE(str(pages, " runs of one page"));
    const ObjectHandle handle = owner.put(pages, pages * 65536 - 5);
    EXPECT_EQ(handle.extents.size(), pages <= kMaxExtents ? pages : 0);  // empty: scattered
    std::vector<std::byte> into;
    EXPECT_EQ(get(handle, into), Status::kOk);
    EXPECT_TRUE(into == make_bytes(pages, pages * 65536 - 5));
  }
}

TEST_P(SocketEngine, CallsAHandleStaleWhoseObjectIsGone) {
  const ObjectHandle old = owner.put(1, 100'000);
  const ObjectHandle kept = owner.put(2, 100'000);
  free_through(1);
  const ObjectHandle again = owner.put(3, 100'000);  // in the same pages
  ASSERT_EQ(again.fields.first_gva, old.fields.first_gva);
  std::vector<std::byte> into, into_kept, into_again;
  const TransferId stale = post(old, into);
  const TransferId fresh = post(kept, into_kept);
  EXPECT_EQ(get(again, into_again), Status::kOk);
  ASSERT_TRUE(poller.wait_for(stale) && poller.wait_for(fresh));
  EXPECT_EQ(poller.done[stale], Status::kStale);
  EXPECT_EQ(poller.done[fresh], Status::kOk);  // a stale neighbour holds nobody back
  EXPECT_TRUE(into_kept == make_bytes(2, 100'000));
  EXPECT_TRUE(into_again == make_bytes(3, 100'000));
}

TEST_P(SocketEngine, FindsAChangedByte) {
  const ObjectHandle handle = owner.put(1, 300'000);
  owner.damage(299'999);
  std::vector<std::byte> into;
  EXPECT_EQ(get(handle, into), Status::kCorrupt);
}

TEST_P(SocketEngine, EndsAGetAtItsDeadlineAndKeepsTheLink) {
  const ObjectHandle handle = owner.put(1, 200'000);
  std::vector<std::byte> into;
  ASSERT_EQ(get(handle, into), Status::kOk);
  Poller reader_alone({reading.engine.get()});  // the owner does not move
  const Stopwatch waited;
  const TransferId id = post(handle, into, /*seconds=*/0.05);
  ASSERT_TRUE(reader_alone.wait_for(id));
  EXPECT_EQ(reader_alone.done[id], Status::kTimeout);
  EXPECT_LT(waited.seconds(), 5);
  const std::vector<std::byte> untouched = into;
  std::vector<std::byte> other;
  EXPECT_EQ(get(handle, other), Status::kOk);  // after the late reply
  EXPECT_TRUE(into == untouched);
  EXPECT_FALSE(poller.done.contains(id));  // it ended once
  EXPECT_TRUE(poller.until([&] { return owner.in_use() == 0; }));
}

TEST_P(SocketEngine, LeavesNoLeaseOfAReaderThatIsGone) {
  const ObjectHandle handle = owner.put(1, 8 << 20);
  std::vector<std::byte> into;
  const TransferId id = post(handle, into);
  Poller owner_alone({serving.engine.get()});
  ASSERT_TRUE(poller.until([&] { return owner.in_use() > 0 || poller.done.contains(id); }));
  reading.engine.reset();
  EXPECT_TRUE(owner_alone.until([&] { return owner.in_use() == 0; }));
}

TEST_P(SocketEngine, ForceCloseEndsWhatIsPosted) {
  const ObjectHandle handle = owner.put(1, 8 << 20);
  std::vector<std::byte> into;
  const TransferId id = post(handle, into);
  reading.engine->close(link, CloseMode::kForce);
  ASSERT_TRUE(poller.until([&] { return !poller.closed.empty(); }));
  EXPECT_EQ(poller.done.at(id), Status::kBackend);
  EXPECT_FALSE(reading.engine->post_get(link, handle, into, in_seconds(1)));
}

TEST_P(SocketEngine, DrainsBeforeItCloses) {
  const ObjectHandle handle = owner.put(1, 8 << 20);
  std::vector<std::byte> into;
  const TransferId id = post(handle, into);
  reading.engine->close(link, CloseMode::kDrain);
  ASSERT_TRUE(poller.until([&] { return poller.closed.size() == 2; }));  // both ends
  EXPECT_EQ(poller.done.at(id), Status::kOk);
  for (const LinkClosed& end : poller.closed) EXPECT_EQ(end.status, Status::kOk) << end.reason;
}

TEST_P(SocketEngine, CarriesMessagesBothWays) {
  ASSERT_TRUE(poller.until([&] { return !poller.opened.empty(); }));
  EXPECT_EQ(poller.opened[0].peer.rank, 1);
  EXPECT_EQ(poller.opened[0].peer.role, Role::kConsumer);
  const auto body = body_of(Heartbeat{.step = 5});
  EXPECT_EQ(reading.engine->post_control(link, FrameType::kHeartbeat, body), Status::kOk);
  EXPECT_EQ(serving.engine->post_control(poller.opened[0].link, FrameType::kHeartbeat, body),
            Status::kOk);
  ASSERT_TRUE(poller.until([&] { return poller.frames.size() == 2; }));
  for (const FrameReceived& received : poller.frames) EXPECT_TRUE(received.frame.body == body);
}

TEST_P(SocketEngine, RefusesWhoHoldsAnotherKey) {
  Served stranger = open_reader(GetParam(), {.key = make_key(2)});
  Poller all({serving.engine.get(), stranger.engine.get()});
  ASSERT_TRUE(stranger.engine->connect(serving.row, in_seconds(5)).has_value());
  ASSERT_TRUE(all.until([&] { return !all.closed.empty(); }));
  // The server proves itself first, so the stranger is the one that sees it.
  EXPECT_THAT(all.closed[0].reason, HasSubstr("does not hold the job key"));
  EXPECT_EQ(stranger.links->refusals().of("key"), 1);
}

TEST_P(SocketEngine, RefusesWhatTheRoleMayNotDo) {
  Served controller = open_reader(GetParam(), {.self = make_member(2, Role::kController, 2)});
  Poller all({serving.engine.get(), controller.engine.get()});
  const PeerLink other = controller.engine->connect(serving.row, in_seconds(5)).value();
  const ObjectHandle handle = owner.put(1, 1000);
  std::vector<std::byte> into(1000);
  const TransferId id = controller.engine->post_get(other, handle, into, in_seconds(5)).value();
  ASSERT_TRUE(all.wait_for(id));
  EXPECT_EQ(all.done[id], Status::kPeerLost);
  EXPECT_EQ(serving.links->refusals().of("role"), 1);
  EXPECT_TRUE(into == std::vector<std::byte>(1000));

  const auto body = body_of(CommitMessage{.step = 5});  // of the controller alone
  EXPECT_EQ(reading.engine->post_control(link, FrameType::kCommit, body), Status::kOk);
  ASSERT_TRUE(poller.until([&] { return serving.links->refusals().of("role") == 2; }));
}

TEST_P(SocketEngine, RefusesAnOldIncarnationAndAThirdConnection) {
  ASSERT_TRUE(poller.until([&] { return !poller.opened.empty(); }));
  Served second = open_reader(GetParam()), third = open_reader(GetParam());
  Membership older = make_member(1, Role::kConsumer, 1);
  older.incarnation = 0;
  Served old = open_reader(GetParam(), {.self = older});
  Poller all({serving.engine.get(), reading.engine.get(), second.engine.get(), third.engine.get(),
              old.engine.get()});
  for (Served* each : {&second, &third, &old}) {
    ASSERT_TRUE(each->engine->connect(serving.row, in_seconds(5)).has_value());
    all.until([&] { return all.opened.size() + all.closed.size() > 0; });
  }
  ASSERT_TRUE(all.until([&] { return serving.links->refusals().total() == 2; }));
  EXPECT_EQ(serving.links->refusals().of("duplicate"), 1);
  EXPECT_EQ(serving.links->refusals().of("incarnation"), 1);
}

TEST_P(SocketEngine, TakesNoOtherProcessForTheOwner) {
  SegmentRow row = serving.row;
  row.incarnation = 9;
  ASSERT_TRUE(reading.engine->connect(row, in_seconds(5)).has_value());
  ASSERT_TRUE(poller.until([&] { return !poller.closed.empty(); }));
  EXPECT_THAT(poller.closed[0].reason, HasSubstr("another process answers"));
}

INSTANTIATE_TEST_SUITE_P(Engines, SocketEngine, testing::ValuesIn(socket_engines()),
                         engine_of_case);
INSTANTIATE_TEST_SUITE_P(Engines, FragmentedSocketEngine, testing::ValuesIn(socket_engines()),
                         engine_of_case);

}  // namespace
}  // namespace tributary::memory
