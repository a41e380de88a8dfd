#include "memory/object/generations.h"

#include <gtest/gtest.h>
#include <numeric>
#include <vector>

namespace tributary::memory {
namespace {

class GenerationsTest : public testing::Test {
 protected:
  GenerationsTest() {
    for (std::size_t i = 0; i < segment.size(); ++i) segment[i] = static_cast<std::byte>(i);
    store_generation(generations, runs, 5);
  }
  Status copy(std::span<const PageRun> from, std::uint64_t generation, std::size_t bytes) {
    into.assign(bytes, std::byte{0xff});
    return copy_object(generations, segment, 16, from, generation, into);
  }

  std::vector<std::atomic<std::uint64_t>> generations = std::vector<std::atomic<std::uint64_t>>(8);
  std::vector<std::byte> segment{8 * 16};
  std::vector<PageRun> runs{{.first = 5, .count = 2}, {.first = 1, .count = 1}};
  std::vector<std::byte> into;
};

TEST_F(GenerationsTest, CopiesTheRunsInOrder) {
  ASSERT_EQ(copy(runs, 5, 40), Status::kOk);
  for (std::size_t i = 0; i < 40; ++i)
    EXPECT_EQ(into[i], static_cast<std::byte>(i < 32 ? 80 + i : 16 + i - 32));
}

TEST_F(GenerationsTest, FindsOldHandles) {
  EXPECT_EQ(copy(runs, 4, 40), Status::kStale);
  EXPECT_EQ(into, std::vector<std::byte>(40, std::byte{0xff}));  // before any byte
  store_generation(generations, std::vector<PageRun>{{.first = 1, .count = 1}}, 6);
  EXPECT_EQ(copy(runs, 5, 40), Status::kStale);  // of one run
  clear_generation(generations, runs);
  EXPECT_EQ(copy(runs, 5, 40), Status::kStale);
}

TEST_F(GenerationsTest, StaysInTheSegment) {
  for (const PageRun run : {PageRun{.first = 7, .count = 2}, PageRun{.first = 8, .count = 1},
                            PageRun{.first = 0xffffffff, .count = 0xffffffff}})
    EXPECT_EQ(copy(std::vector<PageRun>{run}, 0, 1), Status::kBounds) << run.first;
  EXPECT_EQ(copy(runs, 5, 49), Status::kBounds);  // more than the pages hold
}

}  // namespace
}  // namespace tributary::memory
