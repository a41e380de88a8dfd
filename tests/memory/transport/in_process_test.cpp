#include "memory/transport/in_process.h"

#include <gtest/gtest.h>
#include <memory>
#include <numeric>

#include "core/error.h"
#include "core/file/crc32c.h"
#include "memory/protocol/reader_access.h"
#include "memory/wire/messages.h"

namespace tributary::memory {
namespace {

constexpr std::uint16_t kOwner = 3, kReader = 5;
constexpr std::uint32_t kPageBytes = 64, kPages = 32, kEpoch = 7;
constexpr TimePoint kNow{1'000}, kLater{2'000};

PeerIdentity identity_of(std::uint16_t process, Role role) {
  return {.rank = process, .role = role, .process = process, .incarnation = 1, .epoch = 1};
}

/// Objects in plain memory, behind the checks of the protocol.
class PlainOwner final : public ObjectServer {
 public:
  ObjectHandle put(std::uint64_t sample, std::uint64_t bytes) {
    const auto pages = static_cast<std::uint32_t>((bytes + kPageBytes - 1) / kPageBytes);
    const SlotId id = objects.reserve({.sample = sample}, 0, pages, Urgency::kLow).value();
    objects.begin_write(id);
    std::vector<std::byte> made(bytes);
    std::uint64_t written = 0;
    for (const PageRun& run : objects.slot(id).runs)
      for (std::uint64_t at = run.first * kPageBytes;
           at < (run.first + run.count) * kPageBytes && written < bytes; ++at, ++written)
        made[written] = memory[at] = static_cast<std::byte>(sample * 31 + written);
    return objects.seal(id, {.bytes = bytes, .crc32c = crc32c(made)});
  }
  static std::vector<std::byte> bytes_of(std::uint64_t sample, std::uint64_t bytes) {
    std::vector<std::byte> expected(bytes);
    for (std::uint64_t i = 0; i < bytes; ++i) expected[i] = static_cast<std::byte>(sample * 31 + i);
    return expected;
  }

  Grant grant(const PeerIdentity& peer, const GetRequest& request) override {
    const SendObject answer = access.answer(peer, request, kNow);
    Grant given{.id = answer.grant, .status = Status{answer.reply.status}};
    std::uint64_t left = answer.length;
    for (const PageRun& run : answer.runs) {
      const std::uint64_t bytes = std::min<std::uint64_t>(left, run.count * kPageBytes);
      given.parts.push_back(std::span(memory).subspan(run.first * kPageBytes, bytes));
      left -= bytes;
    }
    return given;
  }
  void end_grant(std::uint64_t id) override { access.end(id); }
  Status lease(const PeerIdentity& peer, std::uint64_t lease_id,
               std::span<const LeaseEntry> entries) override {
    return access.lease(peer, {lease_id, {entries.begin(), entries.end()}}, kNow);
  }
  void unlease(const PeerIdentity& peer, std::uint64_t lease_id) override {
    access.unlease(peer, lease_id);
  }

  std::vector<std::byte> memory{kPages * kPageBytes};
  std::vector<std::atomic<std::uint64_t>> generations =
      std::vector<std::atomic<std::uint64_t>>(kPages);
  ObjectTable objects{
      {.process = kOwner, .page_bytes = kPageBytes, .pages = kPages}, kEpoch, generations};
  ReaderAccess access{objects, {}};
};

class InProcessTest : public testing::Test {
 protected:
  static SegmentRow row() {
    return {.process = kOwner,
            .length = kPages * kPageBytes,
            .page_bytes = kPageBytes,
            .epoch = kEpoch,
            .incarnation = 1,
            .keys = {in_process_key()}};
  }
  static std::vector<Completion> poll(Transport& engine, TimePoint now = kNow) {
    std::vector<Completion> events(64);
    events.resize(engine.poll(events, now));
    return events;
  }
  template <class T>
  static std::vector<T> take(Transport& engine, TimePoint now = kNow) {
    std::vector<T> found;
    for (Completion& event : poll(engine, now))
      if (T* one = std::get_if<T>(&event)) found.push_back(std::move(*one));
    return found;
  }
  TransferId post(const ObjectHandle& handle, TimePoint deadline = kLater) {
    into.assign(handle.fields.bytes, std::byte{0xcc});
    return reading->post_get(link, handle, into, deadline).value();
  }
  Status get(const ObjectHandle& handle) {
    const TransferId id = post(handle);
    const auto done = take<TransferDone>(*reading);
    EXPECT_EQ(done.size(), 1);
    EXPECT_EQ(done.at(0).transfer, id);
    EXPECT_EQ(owner.objects.leases(), 0);
    return done.at(0).status;
  }

  PlainOwner owner;
  LocalMembers members;
  InProcess serving{identity_of(kOwner, Role::kProducer), &owner, members};
  std::unique_ptr<InProcess> reading =
      std::make_unique<InProcess>(identity_of(kReader, Role::kConsumer), nullptr, members);
  PeerLink link = reading->connect(row(), kLater).value();
  std::vector<std::byte> into;
};

TEST_F(InProcessTest, BringsTheBytesOfEverySizeAndExtent) {  // I6
  for (const std::uint64_t bytes : {1, 63, 64, 65, 1000}) {
    const ObjectHandle handle = owner.put(bytes, bytes);
    EXPECT_EQ(get(handle), Status::kOk);
    EXPECT_EQ(into, PlainOwner::bytes_of(bytes, bytes));
    owner.objects.retire_through(0);
  }
  std::vector<SlotId> slots;
  for (std::uint32_t page = 0; page < kPages; ++page)
    slots.push_back(owner.objects.reserve({.sample = page}, 0, 1, Urgency::kLow).value());
  for (std::size_t i = 0; i < kPages; i += 2) owner.objects.abort(slots[i]);
  for (const std::uint64_t bytes : {4 * 64, 10 * 64 - 1}) {  // the second one is scattered
    EXPECT_EQ(get(owner.put(bytes, bytes)), Status::kOk);
    EXPECT_EQ(into, PlainOwner::bytes_of(bytes, bytes));
  }
}

TEST_F(InProcessTest, FindsStaleHandlesChangedBytesAndOldEpochs) {
  const ObjectHandle old = owner.put(1, 100);
  owner.objects.retire_through(0);
  const ObjectHandle handle = owner.put(2, 100);
  EXPECT_EQ(get(old), Status::kStale);
  EXPECT_EQ(into, std::vector<std::byte>(100, std::byte{0xcc}));
  owner.memory[99] ^= std::byte{1};
  EXPECT_EQ(get(handle), Status::kCorrupt);
  ObjectHandle other = handle;
  other.fields.epoch = 6;
  EXPECT_EQ(get(other), Status::kEpoch);
}

TEST_F(InProcessTest, EndsAGetAtItsDeadline) {
  const TransferId id = post(owner.put(1, 100));
  const auto done = take<TransferDone>(*reading, kLater);
  ASSERT_EQ(done.size(), 1);
  EXPECT_EQ(done[0].transfer, id);
  EXPECT_EQ(done[0].status, Status::kTimeout);
  EXPECT_EQ(into, std::vector<std::byte>(100, std::byte{0xcc}));
}

TEST_F(InProcessTest, ClosesTheLinkOfARequestOutOfBounds) {
  ObjectHandle handle = owner.put(1, 100);
  handle.fields.bytes = 101;
  post(handle);
  const std::vector<Completion> events = poll(*reading);
  ASSERT_EQ(events.size(), 2);
  EXPECT_EQ(std::get<TransferDone>(events[0]).status, Status::kBounds);
  EXPECT_EQ(std::get<LinkClosed>(events[1]).status, Status::kPeerLost);
  EXPECT_EQ(into, std::vector<std::byte>(101, std::byte{0xcc}));
  EXPECT_EQ(take<LinkClosed>(serving).size(), 1);
  EXPECT_FALSE(reading->post_get(link, handle, into, kLater));
}

TEST_F(InProcessTest, RefusesTheController) {
  InProcess controller(identity_of(6, Role::kController), nullptr, members);
  const PeerLink other = controller.connect(row(), kLater).value();
  into.resize(100);
  static_cast<void>(controller.post_get(other, owner.put(1, 100), into, kLater).value());
  EXPECT_EQ(take<TransferDone>(controller).at(0).status, Status::kBounds);
}

TEST_F(InProcessTest, CarriesMessagesBothWays) {
  const auto opened = take<LinkOpened>(serving);
  ASSERT_EQ(opened.size(), 1);
  EXPECT_EQ(opened[0].peer, identity_of(kReader, Role::kConsumer));
  const std::vector<std::byte> body = body_of(CommitMessage{.step = 5});
  reading->set_epoch(4);
  EXPECT_EQ(reading->post_control(link, FrameType::kCommit, body), Status::kOk);
  const auto there = take<FrameReceived>(serving);
  ASSERT_EQ(there.size(), 1);
  EXPECT_EQ(there[0].link, opened[0].link);
  EXPECT_EQ(there[0].frame.header.epoch, 4);
  EXPECT_EQ(there[0].frame.body, body);
  EXPECT_EQ(serving.post_control(opened[0].link, FrameType::kCommit, body), Status::kOk);
  EXPECT_EQ(take<FrameReceived>(*reading).at(0).link, link);
}

TEST_F(InProcessTest, BoundsWhatWaits) {
  const std::vector<std::byte> body = body_of(CommitMessage{.step = 5});
  std::size_t sent = 0;
  while (sent < 5000 && reading->post_control(link, FrameType::kCommit, body) == Status::kOk)
    ++sent;
  EXPECT_EQ(sent, InProcess::kMaxEvents - 1);  // LinkOpened waits, too
  poll(serving);
  EXPECT_EQ(reading->post_control(link, FrameType::kCommit, body), Status::kOk);
}

TEST_F(InProcessTest, DrainsOrEndsWhatIsPosted) {
  const TransferId drained = post(owner.put(1, 100));
  reading->close(link, CloseMode::kDrain);
  EXPECT_FALSE(reading->post_get(link, owner.put(2, 100), into, kLater));
  std::vector<Completion> events = poll(*reading);
  ASSERT_EQ(events.size(), 2);
  EXPECT_EQ(std::get<TransferDone>(events[0]).transfer, drained);
  EXPECT_EQ(std::get<TransferDone>(events[0]).status, Status::kOk);
  EXPECT_EQ(std::get<LinkClosed>(events[1]).status, Status::kOk);

  link = reading->connect(row(), kLater).value();
  const TransferId ended = post(owner.put(3, 100));
  reading->close(link, CloseMode::kForce);
  events = poll(*reading);
  ASSERT_EQ(events.size(), 2);
  EXPECT_EQ(std::get<TransferDone>(events[0]).transfer, ended);
  EXPECT_EQ(std::get<TransferDone>(events[0]).status, Status::kBackend);
  EXPECT_EQ(std::get<LinkClosed>(events[1]).link, link);
}

TEST_F(InProcessTest, TellsPeersThatAMemberHasEnded) {
  take<LinkOpened>(serving);
  reading.reset();
  const auto closed = take<LinkClosed>(serving);
  ASSERT_EQ(closed.size(), 1);
  EXPECT_EQ(closed[0].status, Status::kPeerLost);
  EXPECT_FALSE(members.contains(kReader));
}

TEST_F(InProcessTest, ConnectsToMembersOfThisProcessAlone) {
  SegmentRow other = row();
  other.process = 9;
  EXPECT_EQ(reading->connect(other, kLater).refusal().code, "peer_lost");
  other = row();
  other.incarnation = 2;
  EXPECT_EQ(reading->connect(other, kLater).refusal().code, "peer_lost");
  other = row();
  other.keys = {{.engine = Engine::kTcp}};
  EXPECT_EQ(reading->connect(other, kLater).refusal().code, "key");
  EXPECT_THROW(InProcess(identity_of(kReader, Role::kConsumer), nullptr, members), Error);
}

}  // namespace
}  // namespace tributary::memory
