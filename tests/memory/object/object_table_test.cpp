#include "memory/object/object_table.h"

#include <deque>
#include <functional>
#include <gtest/gtest.h>

#include "core/error.h"

namespace tributary::memory {
namespace {

constexpr std::uint32_t kPages = 32, kPageBytes = 64;
constexpr TimePoint kNow{1'000};

class ObjectTableTest : public testing::Test {
 protected:
  SlotId reserve(std::uint64_t sample, std::uint32_t pages = 2, std::uint64_t step = 0) {
    return table.reserve({.sample = sample}, step, pages, Urgency::kLow).value();
  }
  SlotId write(std::uint64_t sample, std::uint32_t pages = 2, std::uint64_t step = 0) {
    const SlotId id = reserve(sample, pages, step);
    table.begin_write(id);
    return id;
  }
  ObjectHandle put(std::uint64_t sample, std::uint32_t pages = 2, std::uint64_t step = 0) {
    return table.seal(write(sample, pages, step), {.bytes = pages * kPageBytes - 3});
  }
  Status lease(const ObjectHandle& handle, LeaseHolder holder = {.process = 5, .epoch = 1}) {
    return table.lease(holder, {handle.fields.first_gva, handle.fields.generation}, kNow);
  }
  [[nodiscard]] bool is_there(const ObjectHandle& handle) const {
    return table.find(handle.fields.first_gva) != nullptr;
  }

  std::vector<std::atomic<std::uint64_t>> generations =
      std::vector<std::atomic<std::uint64_t>>(kPages);
  ObjectTable table{
      {.tier = Tier::kDram, .process = 3, .offset = 640, .page_bytes = kPageBytes, .pages = kPages},
      7,
      Generations(generations)};
};

TEST_F(ObjectTableTest, NamesASealedObject) {
  const ObjectHandle handle = put(9, 3);
  EXPECT_EQ(handle.fields.key.sample, 9);
  EXPECT_EQ(handle.fields.epoch, 7);
  EXPECT_EQ(GlobalAddress::from_bits(handle.fields.first_gva).value(),
            GlobalAddress::make(Tier::kDram, 3, 640).value());
  ASSERT_EQ(handle.extents.size(), 1);
  EXPECT_EQ(handle.extents[0].bytes, 3 * kPageBytes - 3);
  for (std::uint32_t page = 0; page < kPages; ++page)
    EXPECT_EQ(generations[page].load(), page < 3 ? handle.fields.generation : 0);
  ByteWriter bytes;
  put_handle(bytes, handle);
  const std::vector<std::byte> sent = bytes.take();
  ByteReader from(sent);
  EXPECT_EQ(get_handle(from).value(), handle);
}

TEST_F(ObjectTableTest, RefusesEveryTransitionThatIsNotInTheTable) {  // I5
  using Make = std::function<SlotId()>;
  const Make make_free = [&] {
    const SlotId id = reserve(1);
    table.abort(id);
    return id;
  };
  const Make make_reserved = [&] { return reserve(1); };
  const Make make_writing = [&] { return write(1); };
  const Make make_sealed = [&] {
    const SlotId id = write(1);
    table.seal(id, {.bytes = 1});
    return id;
  };
  const Make make_retired = [&] {
    const SlotId id = make_sealed();
    EXPECT_EQ(lease(table.slot(id).handle), Status::kOk);
    table.retire_through(0);
    return id;
  };
  using Act = std::function<void(SlotId)>;
  const Act begin = [&](SlotId id) { table.begin_write(id); };
  const Act abort = [&](SlotId id) { table.abort(id); };
  const Act seal = [&](SlotId id) { table.seal(id, {.bytes = 1}); };
  const std::vector<std::pair<Make, std::vector<Act>>> refused{
      {make_free, {begin, abort, seal}},
      {make_reserved, {seal}},
      {make_writing, {begin}},
      {make_sealed, {begin, abort, seal}},
      {make_retired, {begin, abort, seal}},
  };
  for (const auto& [make, acts] : refused)
    for (const Act& act : acts) {
      const SlotId id = make();
      EXPECT_THROW(act(id), Error) << static_cast<std::uint64_t>(id);
      table.retire_through(0);
      table.drop_reader(5, 9);
    }
  EXPECT_FALSE(table.revoke(reserve(2)));
  EXPECT_FALSE(table.revoke(write(3)));
  EXPECT_FALSE(table.revoke(SlotId{999}));
}

TEST_F(ObjectTableTest, SealsOnlyWhatItsPagesHold) {
  EXPECT_THROW(table.seal(write(1, 2), {.bytes = 2 * kPageBytes + 1}), Error);
  EXPECT_THROW(table.seal(write(3, 2), {.bytes = 1, .shape = {1, 1, 1, 1, 1}}), Error);
}

TEST_F(ObjectTableTest, KeepsARetiredObjectForWhoReadsIt) {
  const ObjectHandle handle = put(1);
  const LeaseHolder reader{.process = 5, .epoch = 1, .lease_id = 8};
  EXPECT_EQ(lease(handle, reader), Status::kOk);
  EXPECT_EQ(lease(handle, reader), Status::kOk);  // the same one
  EXPECT_EQ(table.leases(), 1);
  table.retire_through(0);
  ASSERT_TRUE(is_there(handle));
  EXPECT_EQ(lease(handle, {.process = 6, .epoch = 1}), Status::kStale);
  EXPECT_EQ(lease(handle, {.process = 5, .epoch = 1, .lease_id = 9}), Status::kOk);
  table.unlease(reader);
  table.unlease(reader);
  EXPECT_TRUE(is_there(handle));
  table.unlease({.process = 5, .epoch = 1, .lease_id = 9});
  EXPECT_FALSE(is_there(handle));
  EXPECT_EQ(table.arena().used_pages(), 0);
  EXPECT_EQ(lease(handle), Status::kStale);
}

TEST_F(ObjectTableTest, RetiresOnlyCommittedSteps) {
  const ObjectHandle first = put(1, 2, 3), second = put(2, 2, 4);
  const SlotId writing = write(3, 2, 3);
  table.retire_through(3);
  EXPECT_FALSE(is_there(first));
  EXPECT_TRUE(is_there(second));
  EXPECT_EQ(table.slot(writing).state, ObjectState::kWriting);
}

TEST_F(ObjectTableTest, RevokesOnlyWhatNobodyReads) {
  const SlotId id = write(1);
  const ObjectHandle handle = table.seal(id, {.bytes = 1});
  EXPECT_EQ(lease(handle), Status::kOk);
  EXPECT_FALSE(table.revoke(id));
  table.drop_reader(5, 2);
  EXPECT_TRUE(table.revoke(id));
  EXPECT_FALSE(is_there(handle));
}

TEST_F(ObjectTableTest, DropsTheLeasesOfEarlierEpochs) {
  const ObjectHandle handle = put(1);
  EXPECT_EQ(lease(handle, {.process = 5, .epoch = 1}), Status::kOk);
  EXPECT_EQ(lease(handle, {.process = 5, .epoch = 3}), Status::kOk);
  EXPECT_EQ(lease(handle, {.process = 6, .epoch = 1}), Status::kOk);
  table.drop_reader(5, 3);
  EXPECT_EQ(table.leases(), 2);
  EXPECT_EQ(table.slots().begin()->second.leases.count({.process = 5, .epoch = 3}), 1);
}

TEST_F(ObjectTableTest, FreesAfterTheLastResort) {
  const ObjectHandle handle = put(1);
  EXPECT_EQ(lease(handle), Status::kOk);
  table.retire_through(0);
  table.expire_leases(kNow + ObjectTable::kLeaseTtl);
  EXPECT_TRUE(is_there(handle));
  table.expire_leases(kNow + ObjectTable::kLeaseTtl + Nanoseconds{1});
  EXPECT_FALSE(is_there(handle));
  EXPECT_EQ(generations[0].load(), 0);
  EXPECT_EQ(table.leases(), 0);
  table.unlease({.process = 5, .epoch = 1});  // comes late
}

TEST_F(ObjectTableTest, TellsOutsideFromStale) {
  const ObjectHandle handle = put(1);
  const std::uint64_t begin = handle.fields.first_gva, generation = handle.fields.generation;
  const auto lease_at = [&](std::uint64_t gva, std::uint64_t wanted) {
    return table.lease({.process = 5}, {gva, wanted}, kNow);
  };
  EXPECT_EQ(lease_at(begin - 1, generation), Status::kBounds);
  EXPECT_EQ(lease_at(begin + kPages * kPageBytes, generation), Status::kBounds);
  EXPECT_EQ(lease_at(0, generation), Status::kBounds);
  EXPECT_EQ(lease_at(begin + kPageBytes, generation), Status::kStale);  // not where it begins
  EXPECT_EQ(lease_at(begin + 1, generation), Status::kStale);
  EXPECT_EQ(lease_at(begin, generation + 1), Status::kStale);
  EXPECT_EQ(lease_at(begin, generation), Status::kOk);
}

TEST_F(ObjectTableTest, CallsEveryOldHandleStale) {  // I7
  std::deque<ObjectHandle> old;
  std::uint64_t newest = 0;
  for (int i = 0; i < 20'000; ++i) {
    const ObjectHandle handle = put(1, 1);
    ASSERT_GT(handle.fields.generation, newest);
    newest = handle.fields.generation;
    for (const ObjectHandle& one : old) ASSERT_EQ(lease(one), Status::kStale);
    table.retire_through(0);
    old.push_back(handle);
    if (old.size() > 8) old.pop_front();
  }
  EXPECT_EQ(old.front().fields.first_gva, old.back().fields.first_gva);  // the same pages
}

TEST_F(ObjectTableTest, ScattersOnlyForStepLow) {
  for (std::uint64_t sample = 0; sample < kPages; ++sample) put(sample, 1, sample % 2);
  table.retire_through(0);  // every other page is free
  EXPECT_FALSE(table.reserve({.sample = 99}, 2, 9, Urgency::kLookAhead));
  const ObjectHandle in_extents = put(100, 7, 2);
  EXPECT_EQ(in_extents.extents.size(), 7);
  const ObjectHandle scattered = put(101, 9, 2);
  EXPECT_EQ(scattered.fields.flags & kScattered, kScattered);
  EXPECT_TRUE(scattered.extents.empty());
  EXPECT_EQ(lease(scattered), Status::kOk);
}

}  // namespace
}  // namespace tributary::memory
