// What the engine `cuda` does beyond the others: the protocol around a device, with one of the
// host's memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/memory/transport/object_owner.h"

namespace tributary::memory {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kManyBytes = 3'300'001;  // in more than three chunks
constexpr double kPatience = 30;                 // s

class DeviceCopies : public testing::Test {
 protected:
  /// Memory of the reader's device.
  std::span<std::byte> allocate(std::uint64_t bytes) {
    return {device->allocate(bytes).value(), bytes};
  }
  Status get(const ObjectHandle& handle, std::span<std::byte> into) {
    const TransferId id =
        reading.engine->post_get(link, handle, into, in_seconds(kPatience)).value();
    EXPECT_TRUE(poller.wait_for(id));
    return poller.done[id];
  }
  /// Makes the segment differ from its copy on the device.
  void spoil_host() { std::ranges::fill(owner.segment.bytes(), std::byte{0}); }

  ObjectOwner owner{160};
  Served serving = serve(Engine::kCudaMap, owner);
  std::shared_ptr<HostDevice> device =
      std::make_shared<HostDevice>(2, std::set{ObjectOwner::kDevice});
  Served reading = open_reader(Engine::kCudaMap, {.device = device});
  Poller poller{{serving.engine.get(), reading.engine.get()}};
  PeerLink link = reading.engine->connect(serving.row, in_seconds(kPatience)).value();
};

TEST_F(DeviceCopies, GoFromDeviceToDevice) {
  const ObjectHandle handle = owner.put(1, kManyBytes);
  spoil_host();
  const std::span<std::byte> into = allocate(kManyBytes);
  EXPECT_EQ(get(handle, into), Status::kOk);
  EXPECT_TRUE(device->read(into) == make_bytes(1, kManyBytes));
  device->free(into.data());
  EXPECT_TRUE(poller.until([&] { return owner.in_use() == 0; }));
}

TEST_F(DeviceCopies, GoToTheHostWhereTheReaderWantsThemThere) {
  const ObjectHandle handle = owner.put(1, kManyBytes);
  spoil_host();
  std::vector<std::byte> into(kManyBytes);
  EXPECT_EQ(get(handle, into), Status::kOk);
  EXPECT_TRUE(into == make_bytes(1, kManyBytes));
}

TEST_F(DeviceCopies, AreLeftOutForWhatLiesOnTheHostAlone) {
  const ObjectHandle handle = owner.put_bytes(1, make_bytes(1, kManyBytes), /*is_on_device=*/false);
  std::vector<std::byte> into(kManyBytes);
  EXPECT_EQ(get(handle, into), Status::kOk);
  EXPECT_TRUE(into == make_bytes(1, kManyBytes));
  EXPECT_EQ(device->copies_made, 0);
}

TEST_F(DeviceCopies, MapEachChunkOnce) {
  std::vector<std::byte> into(kManyBytes);
  for (std::uint64_t sample = 1; sample <= 3; ++sample)
    EXPECT_EQ(get(owner.put(sample, kManyBytes), into), Status::kOk);
  EXPECT_EQ(device->mapped_chunks, static_cast<int>(owner.copy->layout().chunks()));
  EXPECT_GT(owner.copy->layout().chunks(), 3);
}

TEST_F(DeviceCopies, LeaveNothingMappedWhenTheLinkIsClosed) {
  std::vector<std::byte> into(1000);
  EXPECT_EQ(get(owner.put(1, 1000), into), Status::kOk);
  EXPECT_EQ(device->segments, 1);
  reading.engine->close(link, CloseMode::kForce);
  EXPECT_TRUE(poller.until([&] { return device->segments == 0; }));
  EXPECT_EQ(owner.device->segments, 1);
}

TEST_F(DeviceCopies, AreLeasedUntilTheirEnd) {
  const ObjectHandle handle = owner.put(1, kManyBytes);
  std::vector<std::byte> into(kManyBytes);
  std::atomic<std::size_t> leases = 0;
  device->within_copy = [&] { leases = owner.in_use(); };
  EXPECT_EQ(get(handle, into), Status::kOk);
  EXPECT_EQ(leases, 1);
  EXPECT_TRUE(poller.until([&] { return owner.in_use() == 0; }));
}

TEST_F(DeviceCopies, AreDiscardedWhenThePagesWereTakenAway) {
  const ObjectHandle handle = owner.put(1, kManyBytes);
  std::vector<std::byte> into(kManyBytes);
  device->within_copy = [&] {
    clear_generation(owner.segment.generations(),
                     owner.objects.find(handle.fields.first_gva)->runs);
  };
  EXPECT_EQ(get(handle, into), Status::kStale);
  device->within_copy = {};
  EXPECT_EQ(get(handle, into), Status::kStale);
  EXPECT_EQ(device->copies_made, 1);  // not again
}

TEST_F(DeviceCopies, AreCheckedInMemoryOfTheDevice) {
  const ObjectHandle handle = owner.put(1, kManyBytes);
  owner.damage(kManyBytes - 1);
  const std::span<std::byte> into = allocate(kManyBytes);
  EXPECT_EQ(get(handle, into), Status::kCorrupt);
  device->free(into.data());
}

TEST_F(DeviceCopies, HaveLeasesOfTheirOwnBesideAnotherEngine) {
  const Served on_host = serve(Engine::kMemfd, owner), other = open_reader(Engine::kMemfd);
  Poller owners({serving.engine.get(), on_host.engine.get()});
  const PeerLink beside = other.engine->connect(on_host.row, in_seconds(5)).value();
  const TimePoint then = now();  // both ask at the same time
  const auto get_then = [&](Transport& engine, PeerLink at, const ObjectHandle& handle) {
    std::vector<std::byte> into(handle.fields.bytes);
    const TransferId id = engine.post_get(at, handle, into, in_seconds(5)).value();
    std::optional<Status> ended;
    EXPECT_TRUE(owners.until([&] {
      std::array<Completion, 8> events;
      const std::size_t count = engine.poll(events, then);
      for (const Completion& event : std::span(events).first(count))
        if (const auto* done = std::get_if<TransferDone>(&event); done && done->transfer == id)
          ended = done->status;
      return ended.has_value();
    }));
    return ended.value_or(Status::kTimeout);
  };
  EXPECT_EQ(get_then(*reading.engine, link, owner.put(1, 1000)), Status::kOk);
  EXPECT_TRUE(owners.until([&] { return owner.in_use() == 0; }));
  EXPECT_EQ(get_then(*other.engine, beside, owner.put(2, 1000)), Status::kOk);
}

TEST_F(DeviceCopies, EndWithTheirDevice) {
  const ObjectHandle handle = owner.put(1, kManyBytes);
  std::vector<std::byte> into(kManyBytes);
  device->is_broken = true;
  EXPECT_EQ(get(handle, into), Status::kBackend);
  EXPECT_TRUE(poller.until([&] { return owner.in_use() == 0; }));
}

TEST_F(DeviceCopies, AreNoDamagedOnesWhenTheDeviceFailsUnderTheirCheck) {
  const ObjectHandle handle = owner.put(1, kManyBytes);
  const std::span<std::byte> into = allocate(kManyBytes);
  device->within_copy = [&] { device->is_broken = true; };  // after the object has come
  EXPECT_EQ(get(handle, into), Status::kBackend);
  EXPECT_EQ(device->copies_made, 1);
  device->free(into.data());
}

TEST_F(DeviceCopies, NeedAccessToTheDeviceOfTheOwner) {
  const Served stranger =
      open_reader(Engine::kCudaMap, {.device = std::make_shared<HostDevice>(3)});
  const Result<PeerLink> refused = stranger.engine->connect(serving.row, in_seconds(5));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.refusal().reason, "device 3 has no access to device 1");
  const Served same = open_reader(Engine::kCudaMap, {.device = owner.device});
  EXPECT_TRUE(same.engine->connect(serving.row, in_seconds(5)));
}

TEST_F(DeviceCopies, TakeNoChunksOfAnotherSize) {
  SegmentRow row = serving.row;
  MemoryOffer offer = find_offer(row, Engine::kCudaMap).value();
  offer.chunk_bytes = owner.copy->layout().bytes;
  row.keys = {cuda_key(offer)};
  ASSERT_TRUE(reading.engine->connect(row, in_seconds(5)));
  ASSERT_TRUE(poller.until([&] { return poller.closed.size() == 2; }));  // both ends
  EXPECT_THAT(poller.closed, testing::Contains(testing::Field(
                                 &LinkClosed::reason, HasSubstr("a chunk has 1048576 bytes"))));
}

TEST(RequireDeviceMemory, NamesTheSettingWhereThereIsNone) {
  EXPECT_THAT([] { (void)require_device_memory(/*ordinal=*/-1); },
              testing::ThrowsMessage<Error>(testing::AllOf(
                  HasSubstr("an engine that is asked for does not open; where: pool.engines"),
                  HasSubstr("take cuda out of the list"))));
}

TEST(CudaKey, SaysWhereAndOnWhichDevice) {
  const MemoryOffer offer{.path = "/a/b", .device = {std::byte{7}}, .chunk_bytes = 4096};
  SegmentRow row{.keys = {cuda_key(offer)}};
  const MemoryOffer found = find_offer(row, Engine::kCudaMap).value();
  EXPECT_EQ(found.path, "/a/b");
  EXPECT_EQ(found.device, offer.device);
  EXPECT_EQ(found.chunk_bytes, 4096);
  for (const std::size_t bytes : {0, 16, 23}) {
    row.keys[0].bytes.resize(bytes);
    EXPECT_EQ(find_offer(row, Engine::kCudaMap).refusal().code, "key") << bytes;
  }
  EXPECT_EQ(find_offer(row, Engine::kMemfd).refusal().code, "key");
}

TEST(DeviceLayout, TakesTheFewestChunksOfSoManyBytes) {
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  EXPECT_EQ(lay_out_chunks(1, 2 * kMiB), (DeviceLayout{1, 2 * kMiB}));
  EXPECT_EQ(lay_out_chunks(256 * kMiB, 2 * kMiB), (DeviceLayout{256 * kMiB, 256 * kMiB}));
  EXPECT_EQ(lay_out_chunks(300 * kMiB, 2 * kMiB), (DeviceLayout{300 * kMiB, 150 * kMiB}));
  EXPECT_EQ(lay_out_chunks(300 * kMiB, 2 * kMiB).chunks(), 2);
  EXPECT_EQ(lay_out_chunks(1025 * kMiB, 2 * kMiB), (DeviceLayout{1025 * kMiB, 206 * kMiB}));
}

}  // namespace
}  // namespace tributary::memory
