#include "memory/address/page_table.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/sha256.h"
#include "memory/address/host_id.h"

namespace tributary::memory {
namespace {

using testing::HasSubstr;

SegmentRow make_row(std::uint16_t process, std::uint64_t offset = 0, Tier tier = Tier::kDram) {
  return {.tier = tier,
          .process = process,
          .offset = offset,
          .length = 8 << 10,
          .page_bytes = 4 << 10,
          .epoch = 1,
          .keys = {{.engine = Engine::kTcp, .bytes = {std::byte{1}, std::byte{2}}}}};
}

PageTable make_table() {
  return PageTable::make({make_row(2), make_row(0, 16 << 10), make_row(0), make_row(1),
                          make_row(0, 0, Tier::kHbm)})
      .value();
}

/// One change of each field.
const std::vector<std::function<void(SegmentRow&)>> kChanges{
    [](SegmentRow& row) { row.tier = Tier::kHbm; },
    [](SegmentRow& row) { row.process = 9; },
    [](SegmentRow& row) { row.offset += 4 << 10; },
    [](SegmentRow& row) { row.length += 4 << 10; },
    [](SegmentRow& row) { row.page_bytes = 8 << 10; },
    [](SegmentRow& row) { ++row.epoch; },
    [](SegmentRow& row) { ++row.incarnation; },
    [](SegmentRow& row) { row.device = 3; },
    [](SegmentRow& row) { row.read_only = false; },
    [](SegmentRow& row) { row.host_id[31] = std::byte{1}; },
    [](SegmentRow& row) { row.keys[0].engine = Engine::kMemfd; },
    [](SegmentRow& row) { row.keys[0].bytes[1] = std::byte{3}; },
    [](SegmentRow& row) { row.keys.clear(); },
};

TEST(PageTable, HasTheCanonicalBytesOfItsRows) {
  // Written out by hand: the number of rows, then one row without padding.
  const std::string expected(
      "\x01\0\0\0"
      "\0\x01"
      "\x05\0"
      "\0\x10\0\0\0\0\0\0"
      "\0\x20\0\0\0\0\0\0"
      "\0\x10\0\0"
      "\x01\0\0\0"
      "\0\0\0\0"
      "\xff\xff"
      "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
      "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
      "\x01\0"
      "\x03\0"
      "\x02\0"
      "\x01\x02",
      78);
  const PageTable table = PageTable::make({make_row(5, 4096)}).value();
  const std::vector<std::byte> bytes = table.canonical_bytes();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), expected);
  EXPECT_EQ(table.digest(), sha256_digest(expected));
}

TEST(PageTable, DigestSeesEveryFieldAndNoOrder) {
  EXPECT_EQ(make_table().digest(),
            PageTable::make({make_row(0), make_row(1), make_row(2), make_row(0, 0, Tier::kHbm),
                             make_row(0, 16 << 10)})
                .value()
                .digest());
  const PageTable one = PageTable::make({make_row(5)}).value();
  for (std::size_t i = 0; i < kChanges.size(); ++i) {
    SegmentRow row = make_row(5);
    kChanges[i](row);
    const PageTable changed = PageTable::make({row}).value();
    EXPECT_NE(changed.digest(), one.digest()) << i;
    EXPECT_THROW(require_same_table(one, 0, changed, 1), Error) << i;
  }
}

TEST(PageTable, NamesTheFirstRowThatDiffers) {  // I4
  const PageTable own = make_table();
  SegmentRow other = make_row(1);
  ++other.incarnation;
  EXPECT_NO_THROW(require_same_table(own, 0, make_table(), 3));
  const std::vector<SegmentRow> changed{other};
  try {
    require_same_table(own, 0, own.with_rows_of(1, changed).value(), 3);
    ADD_FAILURE() << "the tables differ";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kInput);
    EXPECT_THAT(error.what(), HasSubstr("rank 3: row dram of process 1 at offset 0"));
  }
  EXPECT_THROW(require_same_table(own, 0, own.with_rows_of(2, {}).value(), 3), Error);
}

TEST(PageTable, FindsTheRowOfAnAddress) {
  const PageTable table = make_table();
  const auto length_at = [&](Tier tier, std::uint16_t process, std::uint64_t offset) {
    const SegmentRow* row = table.find(GlobalAddress::make(tier, process, offset).value());
    return row == nullptr ? -1 : static_cast<std::int64_t>(row->offset);
  };
  EXPECT_EQ(length_at(Tier::kDram, 0, 0), 0);
  EXPECT_EQ(length_at(Tier::kDram, 0, (8 << 10) - 1), 0);
  EXPECT_EQ(length_at(Tier::kDram, 0, 8 << 10), -1);
  EXPECT_EQ(length_at(Tier::kDram, 0, (16 << 10) - 1), -1);
  EXPECT_EQ(length_at(Tier::kDram, 0, 16 << 10), 16 << 10);
  EXPECT_EQ(length_at(Tier::kDram, 0, 24 << 10), -1);
  EXPECT_EQ(length_at(Tier::kHbm, 0, 5), 0);
  EXPECT_EQ(length_at(Tier::kHbm, 1, 5), -1);
  EXPECT_EQ(length_at(Tier::kDram, 3, 0), -1);
}

TEST(PageTable, RefusesRowsThatBreakARule) {
  const std::vector<std::function<void(SegmentRow&)>> breaks{
      [](SegmentRow& row) { row.tier = static_cast<Tier>(2); },
      [](SegmentRow& row) { row.page_bytes = 0; },
      [](SegmentRow& row) { row.page_bytes = 12 << 10; },
      [](SegmentRow& row) { row.offset = 1; },
      [](SegmentRow& row) { row.length = 0; },
      [](SegmentRow& row) { row.length += 1; },
      [](SegmentRow& row) { row.offset = GlobalAddress::kSegmentBytes; },
      [](SegmentRow& row) { row.offset = GlobalAddress::kSegmentBytes - (4 << 10); },
      [](SegmentRow& row) { row.keys.resize(17); },
      [](SegmentRow& row) { row.keys[0].bytes.resize(513); },
  };
  for (std::size_t i = 0; i < breaks.size(); ++i) {
    SegmentRow row = make_row(1);
    breaks[i](row);
    EXPECT_FALSE(PageTable::make({row})) << i;
    ByteWriter bytes;
    put_row(bytes, row);
    const std::vector<std::byte> sent = bytes.take();
    ByteReader from(sent);
    EXPECT_FALSE(get_row(from)) << i;
  }
  EXPECT_FALSE(PageTable::make({make_row(1), make_row(1, 4 << 10)}));
  EXPECT_TRUE(PageTable::make({make_row(1), make_row(1, 8 << 10)}));
  const std::vector<SegmentRow> foreign{make_row(2)};
  EXPECT_FALSE(make_table().with_rows_of(1, foreign));
}

TEST(PageTable, RefusesEveryTruncationOfARow) {
  ByteWriter writer;
  put_row(writer, make_row(1));
  const std::vector<std::byte> bytes = writer.take();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    ByteReader from{std::span(bytes).first(length)};
    EXPECT_FALSE(get_row(from)) << length;
  }
  ByteReader from(bytes);
  EXPECT_EQ(get_row(from).value(), make_row(1));
  EXPECT_TRUE(from.finished());
}

TEST(HostId, IsOneOfThisHost) {
  EXPECT_EQ(read_host_id(), read_host_id());
  EXPECT_NE(read_host_id(), Digest{});
}

}  // namespace
}  // namespace tributary::memory
