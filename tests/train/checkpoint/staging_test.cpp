#include "train/checkpoint/staging.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "tests/train/checkpoint/small_run.h"

namespace tributary::train {
namespace {

std::vector<std::byte> bytes_of(const at::Tensor& tensor) {
  const at::Tensor rows = tensor.contiguous();
  const auto* begin = static_cast<const std::byte*>(rows.const_data_ptr());
  return {begin, begin + rows.nbytes()};
}

TEST(BlockReader, HandsOnEveryByteInOrderThroughTwoBlocks) {
  for (const std::int64_t elements : {0, 1, 25, 50, 51, 75, 1000, 1001}) {
    for (const bool turned : {false, true}) {
      at::Tensor tensor = at::arange(2 * elements, at::kFloat).view({2, elements});
      if (turned) tensor = tensor.t();
      BlockReader reader(/*block_bytes=*/100);
      std::vector<std::byte> read;
      std::size_t largest = 0;
      reader.read_through_blocks(tensor, [&](std::span<const std::byte> piece) {
        read.insert(read.end(), piece.begin(), piece.end());
        largest = std::max(largest, piece.size());
      });
      EXPECT_EQ(read, bytes_of(tensor)) << elements << (turned ? " turned" : "");
      EXPECT_LE(largest, 100u);
    }
  }
}

TEST(BlockReader, HandsOnAScalarAndOtherTypes) {
  BlockReader reader(/*block_bytes=*/100);
  for (const at::Tensor& tensor : {at::scalar_tensor(7, at::kLong),
                                   at::arange(70).to(at::kBFloat16), at::ones({9}, at::kBool)}) {
    std::vector<std::byte> read;
    reader.read_through_blocks(tensor, [&](std::span<const std::byte> piece) {
      read.insert(read.end(), piece.begin(), piece.end());
    });
    EXPECT_EQ(read, bytes_of(tensor));
  }
}

TEST(BlockReader, CopiesNothingThatLiesInHostMemoryInOnePiece) {
  const at::Tensor tensor = at::arange(1000);
  BlockReader reader(/*block_bytes=*/100);
  const void* seen = nullptr;
  reader.read(tensor, [&](std::span<const std::byte> piece) {
    seen = piece.data();
    EXPECT_EQ(piece.size(), tensor.nbytes());
  });
  EXPECT_EQ(seen, tensor.const_data_ptr());
}

TEST(Staging, BorrowsWithoutACopyAndCopiesForAThread) {
  const CheckpointContent content = small_run(4);
  const at::Tensor& value = content.model.front().value;
  Staging staging;
  const auto place_of = [](const ChunkToSave& chunk) {
    const void* place = nullptr;
    chunk.read([&](std::span<const std::byte> piece) { place = piece.data(); });
    return place;
  };
  const StagedContent borrowed = staging.borrow(content, {});
  EXPECT_EQ(borrowed.model.front().name, content.model.front().name);
  EXPECT_EQ(place_of(borrowed.model.front()), value.const_data_ptr());
  const StagedContent copied = staging.copy(content, {});
  EXPECT_NE(place_of(copied.model.front()), value.const_data_ptr());
  EXPECT_EQ(copied.bytes, borrowed.bytes);
  const std::vector<std::byte> before = bytes_of(value);
  value.zero_();
  std::vector<std::byte> read;
  copied.model.front().read(
      [&](std::span<const std::byte> piece) { read.assign(piece.begin(), piece.end()); });
  EXPECT_EQ(read, before);
}

}  // namespace
}  // namespace tributary::train
