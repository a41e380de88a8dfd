#include "memory/transport/posted_gets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "core/file/crc32c.h"
#include "memory/wire/messages.h"
#include "tests/memory/transport/object_owner.h"

namespace tributary::memory {
namespace {

using testing::HasSubstr;

constexpr TransferId kAsked{5};
constexpr std::size_t kBytes = 700'000;  // three slices of a checksum, the last one shorter

/// The reader's end of a connection whose other end says what the test wants.
class OnePostedGet : public testing::Test {
 protected:
  OnePostedGet() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    own = std::make_unique<FrameSocket>(Descriptor(ends[0]));
    other = std::make_unique<FrameSocket>(Descriptor(ends[1]));
    gets.add(kAsked, {.into = into, .crc32c = crc32c(bytes), .deadline = {1000}});
  }
  std::optional<Refusal> reply(const GetReply& fields) {
    return gets.take_reply({.header = {}, .body = body_of(fields)}, *own);
  }
  GetReply good() const {
    return {.request = 5, .payload_bytes = kBytes, .status = 0, .crc32c = crc32c(bytes)};
  }
  /// Sends a payload by and by, and takes it.
  std::optional<Refusal> transfer(std::span<const std::byte> payload) {
    other->queue({.frame = {}, .parts = {payload}});
    std::vector<std::uint64_t> ended;
    Frame frame;
    for (int i = 0; i < 10'000; ++i) {
      EXPECT_TRUE(other->flush(ended));
      std::size_t budget = 100'000;
      if (own->receive(frame, budget) == FrameSocket::Event::kPayload)
        return gets.take_payload_end(*own);
    }
    return Refusal{"test", "the payload did not come"};
  }

  std::vector<TransferDone> done;
  PostedGets gets{done};
  std::unique_ptr<FrameSocket> own, other;
  std::vector<std::byte> bytes = make_bytes(1, kBytes), into = std::vector<std::byte>(kBytes);
};

TEST_F(OnePostedGet, EndsWithItsBytes) {
  EXPECT_FALSE(reply(good()));
  EXPECT_FALSE(transfer(bytes));
  ASSERT_EQ(done.size(), 1);
  EXPECT_EQ(done[0].transfer, kAsked);
  EXPECT_EQ(done[0].status, Status::kOk);
  EXPECT_TRUE(into == bytes);
}

TEST_F(OnePostedGet, EndsWithTheStatusOfARefusal) {
  EXPECT_FALSE(reply({.request = 5, .payload_bytes = 0, .status = 7, .crc32c = 0}));
  ASSERT_EQ(done.size(), 1);
  EXPECT_EQ(done[0].status, Status::kBusy);
}

TEST_F(OnePostedGet, RefusesRepliesThatFitToNothing) {
  EXPECT_THAT(reply({.request = 6, .payload_bytes = kBytes}).value().reason,
              HasSubstr("nobody asked: request = 6"));
  for (const GetReply& wrong :
       {GetReply{.request = 5, .payload_bytes = kBytes - 1},
        GetReply{.request = 5, .payload_bytes = ~0ULL}, GetReply{.request = 5, .payload_bytes = 0},
        GetReply{.request = 5, .payload_bytes = kBytes, .status = 1},
        GetReply{.request = 5, .payload_bytes = 0, .status = 9}})
    EXPECT_EQ(reply(wrong).value().code, "reply") << wrong.payload_bytes << " " << wrong.status;
  EXPECT_TRUE(done.empty());
}

TEST_F(OnePostedGet, FindsAChangedByteInEachSlice) {
  for (const std::size_t at : {std::size_t{0}, std::size_t{300'000}, kBytes - 1}) {
    if (at > 0) gets.add(kAsked, {.into = into, .crc32c = crc32c(bytes), .deadline = {1000}});
    std::vector<std::byte> changed = bytes;
    changed[at] ^= std::byte{1};
    EXPECT_FALSE(reply(good()));
    EXPECT_EQ(transfer(changed).value().code, "crc");
    EXPECT_EQ(done.back().status, Status::kCorrupt);
  }
}

TEST_F(OnePostedGet, FindsOtherBytesThanTheHandleNames) {
  const std::vector<std::byte> others = make_bytes(2, kBytes);
  GetReply fields = good();
  fields.crc32c = crc32c(others);  // as the sender says
  EXPECT_FALSE(reply(fields));
  EXPECT_EQ(transfer(others).value().code, "crc");
}

TEST_F(OnePostedGet, LetsALateReplyGo) {
  gets.expire({999}, *own);
  EXPECT_TRUE(done.empty());
  gets.expire({1000}, *own);
  ASSERT_EQ(done.size(), 1);
  EXPECT_EQ(done[0].status, Status::kTimeout);
  EXPECT_FALSE(reply(good()));
  EXPECT_FALSE(transfer(bytes));
  EXPECT_EQ(done.size(), 1);
  EXPECT_TRUE(into == std::vector<std::byte>(kBytes));
  EXPECT_TRUE(gets.empty());
}

TEST_F(OnePostedGet, WritesNothingOnceItsDeadlineHasPassedInTheMiddle) {
  EXPECT_FALSE(reply(good()));
  other->queue({.frame = {}, .parts = {std::span(bytes).first(50'000)}});
  std::vector<std::uint64_t> ended;
  ASSERT_TRUE(other->flush(ended));
  Frame frame;
  std::size_t budget = 40'000;
  EXPECT_EQ(own->receive(frame, budget), FrameSocket::Event::kNothing);
  gets.expire({1000}, *own);
  const std::vector<std::byte> so_far = into;
  EXPECT_FALSE(transfer(std::span(bytes).subspan(50'000)));
  EXPECT_TRUE(into == so_far);
  ASSERT_EQ(done.size(), 1);
  EXPECT_EQ(done[0].status, Status::kTimeout);
}

TEST_F(OnePostedGet, EndsWithItsConnection) {
  gets.end_all(Status::kPeerLost);
  ASSERT_EQ(done.size(), 1);
  EXPECT_EQ(done[0].status, Status::kPeerLost);
}

}  // namespace
}  // namespace tributary::memory
