#include "memory/wire/frame.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <string>

#include "core/error.h"
#include "core/file/crc32c.h"

namespace tributary::memory {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// A frame with this header, whose checksums fit.
std::vector<std::byte> frame_with(FrameHeader header, std::span<const std::byte> body) {
  header.body_crc = crc32c(body);
  header.header_crc = crc32c(std::as_bytes(std::span(&header, 1)).first(28));
  ByteWriter bytes;
  bytes.put(header);
  bytes.put_bytes(body);
  return bytes.take();
}

bool is_refused(std::span<const std::byte> bytes) {
  FrameParser parser;
  const bool refused = !parser.feed(bytes);
  EXPECT_EQ(refused, !parser.feed(frame_bytes(FrameType::kBye, 0, 0, {})));  // for good
  return refused;
}

TEST(Frame, HasTheBytesOfTheFormat) {
  const std::vector<std::byte> bytes =
      frame_bytes(FrameType::kCommit, 0x0a0b0c0d, 0x1122334455667788, bytes_of("12345678"));
  const std::string expected(
      "TRIB"
      "\x02\x0d\0\0"
      "\x0d\x0c\x0b\x0a"
      "\x08\0\0\0"
      "\x88\x77\x66\x55\x44\x33\x22\x11",
      24);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), 24), expected);
  ByteReader checksums{std::span(bytes).subspan(24)};
  EXPECT_EQ(checksums.get<std::uint32_t>(), crc32c(bytes_of("12345678")));
  EXPECT_EQ(checksums.get<std::uint32_t>(), crc32c(std::span(bytes).first(28)));
}

TEST(Frame, ComesTogetherFromPiecesOfAnySize) {
  std::vector<std::byte> stream = frame_bytes(FrameType::kFail, 3, 9, bytes_of("a longer body"));
  const std::vector<std::byte> bye = frame_bytes(FrameType::kBye, 3, 0, {});
  stream.insert(stream.end(), bye.begin(), bye.end());
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    FrameParser parser;
    std::vector<Frame> frames;
    std::span<const std::byte> left = stream;
    while (!left.empty()) {
      std::span<const std::byte> next = left.first(std::min(piece, left.size()));
      left = left.subspan(next.size());
      while (!next.empty()) {
        const FrameParser::Fed fed = parser.feed(next).value();
        next = next.subspan(fed.taken);
        if (fed.frame) frames.push_back(*fed.frame);
      }
    }
    ASSERT_EQ(frames.size(), 2) << piece;
    EXPECT_EQ(frames[0].body, bytes_of("a longer body"));
    EXPECT_EQ(frames[0].header.request, 9);
    EXPECT_EQ(frames[1].type(), FrameType::kBye);
    EXPECT_EQ(parser.wanted(), 32);
  }
}

TEST(Frame, LeavesThePayloadBehindIt) {
  std::vector<std::byte> stream = frame_bytes(FrameType::kGetReply, 0, 1, bytes_of("reply"));
  const std::size_t end = stream.size();
  stream.resize(end + 100);
  FrameParser parser;
  EXPECT_EQ(parser.feed(stream).value().taken, end);
}

TEST(Frame, RefusesEveryFlippedBit) {
  std::vector<std::byte> bytes = frame_bytes(FrameType::kCommit, 1, 2, bytes_of("12345678"));
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_TRUE(is_refused(bytes)) << bit;
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
  }
  EXPECT_FALSE(is_refused(bytes));
}

TEST(Frame, RefusesHeadersThatBreakARule) {
  const FrameHeader good{.type = 13, .body_bytes = 8};
  const std::vector<std::byte> body = bytes_of("12345678");
  EXPECT_FALSE(is_refused(frame_with(good, body)));
  const auto refuses = [&](auto change) {
    FrameHeader header = good;
    change(header);
    return is_refused(frame_with(header, body));
  };
  EXPECT_TRUE(refuses([](FrameHeader& header) { header.magic = 0; }));
  EXPECT_TRUE(refuses([](FrameHeader& header) { header.version = kFrameVersion + 1; }));
  EXPECT_TRUE(refuses([](FrameHeader& header) { header.type = 0; }));
  EXPECT_TRUE(refuses([](FrameHeader& header) { header.type = 23; }));
  EXPECT_TRUE(refuses([](FrameHeader& header) { header.flags = 1; }));
  EXPECT_TRUE(refuses([](FrameHeader& header) { header.body_bytes = (64 << 10) + 1; }));
  EXPECT_TRUE(refuses([](FrameHeader& header) { header.body_bytes = 0; }));
}

TEST(Frame, IsNotMadeWithABodyOfTheWrongSize) {
  const std::vector<std::byte> large(kMaxBodyBytes + 1);
  EXPECT_THROW(static_cast<void>(frame_bytes(FrameType::kPlan, 0, 0, large)), Error);
  EXPECT_THROW(static_cast<void>(frame_bytes(FrameType::kPlan, 0, 0, {})), Error);
  EXPECT_NO_THROW(static_cast<void>(
      frame_bytes(FrameType::kPlan, 0, 0, std::span(large).first(kMaxBodyBytes))));
}

}  // namespace
}  // namespace tributary::memory
