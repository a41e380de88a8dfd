// What arrives at a listening port from whoever reaches it, byte by byte.

#include <cstring>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "core/error.h"
#include "core/file/crc32c.h"
#include "core/random.h"
#include "memory/transport/socket/unix_socket.h"
#include "tests/memory/transport/object_owner.h"

namespace tributary::memory {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// A frame whose header says what `change` makes of it, under a right checksum.
template <class Change>
Bytes changed_frame(Bytes frame, const Change& change) {
  FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof header);
  change(header);
  header.header_crc = crc32c(std::as_bytes(std::span(&header, 1)).first(28));
  std::memcpy(frame.data(), &header, sizeof header);
  return frame;
}

class ListeningPort : public testing::Test {
 protected:
  /// Connects without any engine.
  Descriptor dial() {
    const auto* key = served.row.find_key(Engine::kTcp);
    const std::string text(reinterpret_cast<const char*>(key->bytes.data()), key->bytes.size());
    Descriptor socket = start_connecting(parse_endpoint(text).value()).value();
    fcntl(socket.get(), F_SETFL, 0);
    return socket;
  }
  void send_all(const Descriptor& socket, std::span<const std::byte> bytes) {
    ASSERT_EQ(send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  /// Whether the other end has closed.
  bool is_closed(const Descriptor& socket) {
    std::array<std::byte, 256> block;
    const ssize_t count = recv(socket.get(), block.data(), block.size(), MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno == ECONNRESET);
  }
  /// Does the handshake by hand.
  Descriptor dial_as(Role role) {
    Descriptor socket = dial();
    const ClientHandshake client(make_member(2, role, 2), make_key(), draw_nonce());
    send_all(socket, frame_bytes(FrameType::kHello, 1, 0, body_of(client.hello())));
    Bytes reply(sizeof(FrameHeader) + sizeof(Challenge));
    std::size_t have = 0;
    EXPECT_TRUE(poller.until([&] {
      const ssize_t count =
          recv(socket.get(), reply.data() + have, reply.size() - have, MSG_DONTWAIT);
      have += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
      return have == reply.size();
    }));
    const auto challenge = std::get<Challenge>(
        parse_message(FrameType::kChallenge, std::span(reply).subspan(32)).value());
    send_all(socket,
             frame_bytes(FrameType::kConfirm, 1, 0, body_of(client.answer(challenge).value())));
    return socket;
  }
  /// Sends it and waits for the refusal that it must lead to, and for the close.
  void expect_refused(const Descriptor& socket, const Bytes& bytes, const char* code) {
    const std::uint64_t before = served.links->refusals().of(code);
    send_all(socket, bytes);
    EXPECT_TRUE(poller.until([&] { return served.links->refusals().of(code) == before + 1; }));
    EXPECT_TRUE(poller.until([&] { return is_closed(socket); }));
  }
  void expect_still_serves() {
    Served reader = open_reader(Engine::kTcp);
    Poller both({served.engine.get(), reader.engine.get()});
    const PeerLink link = reader.engine->connect(served.row, in_seconds(5)).value();
    Bytes into(object.fields.bytes);
    const TransferId id = reader.engine->post_get(link, object, into, in_seconds(5)).value();
    ASSERT_TRUE(both.wait_for(id));
    EXPECT_EQ(both.done[id], Status::kOk);
    EXPECT_TRUE(into == make_bytes(1, 100'000));
    EXPECT_TRUE(both.until([&] { return owner.in_use() == 0; }));
  }

  ObjectOwner owner{4};
  ObjectHandle object = owner.put(1, 100'000);
  Served served =
      serve(Engine::kTcp, owner, {.half_open = 8, .per_rank = 4, .handshake = {100'000'000}});
  Poller poller{{served.engine.get()}};
  Bytes hello = frame_bytes(
      FrameType::kHello, 1, 0,
      body_of(ClientHandshake(make_member(2, Role::kConsumer, 2), make_key(), {}).hello()));
};

TEST_F(ListeningPort, RefusesWhatIsNoFrame) {
  expect_refused(dial(), bytes_of("GET / HTTP/1.1\r\nHost: pool.example\r\n\r\n"), "frame");
  expect_refused(dial(), Bytes(64, std::byte{0xff}), "frame");
  Bytes wrong_magic = hello;
  wrong_magic[0] ^= std::byte{1};
  expect_refused(dial(), wrong_magic, "frame");
  Bytes wrong_header = hello;
  wrong_header[16] ^= std::byte{1};  // the request, under the old checksum
  expect_refused(dial(), wrong_header, "frame");
  Bytes wrong_body = hello;
  wrong_body[40] ^= std::byte{1};
  expect_refused(dial(), wrong_body, "frame");
  for (const std::uint32_t body_bytes : {0U, 65537U, 0xffffffffU})
    expect_refused(dial(), changed_frame(hello, [&](FrameHeader& h) { h.body_bytes = body_bytes; }),
                   "frame");
  expect_refused(
      dial(), changed_frame(hello, [](FrameHeader& h) { h.version = kFrameVersion + 1; }), "frame");
  expect_refused(dial(), changed_frame(hello, [](FrameHeader& h) { h.type = 99; }), "frame");
  expect_still_serves();
}

TEST_F(ListeningPort, RefusesMessagesBeforeTheHandshakeHasEnded) {
  const GetRequest get{.gva = object.fields.first_gva, .generation = 1, .length = 8, .epoch = 7};
  const Bytes asked = frame_bytes(FrameType::kGet, 1, 1, body_of(get));
  expect_refused(dial(), asked, "handshake");
  Bytes after_hello = hello;
  after_hello.insert(after_hello.end(), asked.begin(), asked.end());
  expect_refused(dial(), after_hello, "handshake");
  EXPECT_EQ(owner.in_use(), 0);
  expect_still_serves();
}

TEST_F(ListeningPort, RefusesAGuessedProof) {
  Bytes guessed = hello;
  const Bytes confirm = frame_bytes(FrameType::kConfirm, 1, 0, body_of(Confirm{}));
  guessed.insert(guessed.end(), confirm.begin(), confirm.end());
  expect_refused(dial(), guessed, "key");
  EXPECT_TRUE(poller.opened.empty());
}

TEST_F(ListeningPort, LosesPatienceWithAPeerThatSaysNothing) {
  const Stopwatch waited;
  const Descriptor silent = dial();
  const Descriptor slow = dial();
  send_all(slow, std::span(hello).first(10));
  EXPECT_TRUE(poller.until([&] { return served.links->refusals().of("handshake") == 2; }));
  EXPECT_TRUE(poller.until([&] { return is_closed(silent) && is_closed(slow); }));
  EXPECT_LT(waited.seconds(), 5);  // the limit is 0.1 s
}

TEST_F(ListeningPort, TakesAHandshakeInSingleBytes) {
  const Descriptor socket = dial();
  for (const std::byte& byte : hello) {
    send_all(socket, std::span(&byte, 1));
    poller.poll_once();
  }
  std::array<std::byte, 136> challenge;
  EXPECT_TRUE(poller.until([&] {
    return recv(socket.get(), challenge.data(), challenge.size(), MSG_PEEK | MSG_DONTWAIT) == 136;
  }));
}

TEST_F(ListeningPort, BoundsHowManyHaveNotFinishedTheHandshake) {
  std::vector<Descriptor> all;
  for (int i = 0; i < 12; ++i) all.push_back(dial());
  EXPECT_TRUE(poller.until([&] { return served.links->refusals().of("half_open") == 4; }));
  all.clear();
  poller.poll_once();  // sees them go
  expect_still_serves();
}

TEST_F(ListeningPort, RefusesRequestsOutsideOfTheSegmentAndCloses) {  // I19
  const auto get = [&](std::uint64_t gva, std::uint64_t offset, std::uint64_t length) {
    return frame_bytes(FrameType::kGet, 1, 5,
                       body_of(GetRequest{.request = 5,
                                          .gva = gva,
                                          .generation = object.fields.generation,
                                          .offset = offset,
                                          .length = length,
                                          .epoch = ObjectOwner::kEpoch}));
  };
  const std::uint64_t gva = object.fields.first_gva;
  std::uint64_t refused = 0;
  for (const Bytes& bytes :
       {get(gva, 0, 0), get(gva, 0, 100'001), get(gva, 100'001, 1), get(gva, ~0ULL, 2),
        get(gva, 2, ~0ULL), get(0, 0, 8), get(gva ^ (1ULL << 44), 0, 8),
        get(gva ^ (1ULL << 60), 0, 8), get(gva + (1ULL << 30), 0, 8)}) {
    expect_refused(dial_as(Role::kConsumer), bytes, "bounds");
    EXPECT_EQ(served.links->refusals().total(), ++refused);
  }
  EXPECT_EQ(owner.in_use(), 0);
  expect_still_serves();
}

TEST_F(ListeningPort, RefusesBodiesThatAreNoMessages) {
  for (const FrameType type :
       {FrameType::kGet, FrameType::kLease, FrameType::kGetReply, FrameType::kUnlease}) {
    const Descriptor socket = dial_as(Role::kConsumer);
    const std::uint64_t before = served.links->refusals().total();
    send_all(socket, frame_bytes(type, 1, 1, bytes_of("abc")));
    EXPECT_TRUE(poller.until([&] { return served.links->refusals().total() == before + 1; }));
    EXPECT_TRUE(poller.until([&] { return is_closed(socket); }));
  }
  const GetReply reply{.request = 77, .payload_bytes = 100};
  expect_refused(dial_as(Role::kConsumer), frame_bytes(FrameType::kGetReply, 1, 77, body_of(reply)),
                 "reply");
  expect_still_serves();
}

TEST_F(ListeningPort, TakesPartsFromNobodyButAController) {
  const PartMessage part{
      .type = FrameType::kPlan, .part = 0, .parts = 2, .digest = {}, .content = {std::byte{1}}};
  const Bytes frame = frame_bytes(FrameType::kPart, 1, 0, body_of(part));
  expect_refused(dial_as(Role::kConsumer), frame, "role");
  expect_refused(dial_as(Role::kProducer), frame, "role");
  const Descriptor stranger = dial();  // before it has proved anything
  const std::uint64_t before = served.links->refusals().total();
  send_all(stranger, frame);
  EXPECT_TRUE(poller.until([&] { return served.links->refusals().total() == before + 1; }));
  EXPECT_TRUE(poller.until([&] { return is_closed(stranger); }));
  expect_still_serves();
}

TEST_F(ListeningPort, SurvivesChangedBytesOfGoodStreams) {  // I19
  RandomStream random(5, "frames");
  Bytes good = hello;
  const Bytes get =
      frame_bytes(FrameType::kGet, 1, 5, body_of(GetRequest{.request = 5, .length = 1}));
  good.insert(good.end(), get.begin(), get.end());
  for (int i = 0; i < 200; ++i) {
    const Descriptor socket = dial();
    Bytes changed = good;
    for (std::uint64_t j = random.below(4); j > 0; --j)
      changed[random.below(changed.size())] = static_cast<std::byte>(random.next());
    changed.resize(1 + random.below(changed.size()));
    send_all(socket, changed);
    poller.poll_once();
  }
  EXPECT_TRUE(poller.opened.empty());
  EXPECT_EQ(owner.in_use(), 0);
  expect_still_serves();
}

TEST(TcpSocket, ListensOnOnePrivateInterfaceAlone) {
  EXPECT_THAT([] { (void)listen_on({.host = "0.0.0.0"}, true); },
              testing::ThrowsMessage<Error>(HasSubstr("would listen on all interfaces")));
  EXPECT_THAT([] { (void)listen_on({.host = "::"}, true); },
              testing::ThrowsMessage<Error>(HasSubstr("would listen on all interfaces")));
  for (const char* host : {"8.8.8.8", "172.32.0.1", "2001:4860::1", "::ffff:8.8.8.8"})
    EXPECT_THAT([&] { (void)listen_on({.host = host}, false); },
                testing::ThrowsMessage<Error>(HasSubstr("would listen on a public address")));
  EXPECT_THAT([] { (void)listen_on({.host = "localhost"}, false); },
              testing::ThrowsMessage<Error>(HasSubstr("found: \"localhost\"")));
}

TEST(TcpSocket, NamesTheInterfaceThatLeadsToAnEndpoint) {
  EXPECT_EQ(local_host_towards("127.0.0.1:9"), "127.0.0.1");
  EXPECT_EQ(local_host_towards("127.0.0.9:9"), "127.0.0.1");
  EXPECT_EQ(local_host_towards("no endpoint"), "127.0.0.1");
}

TEST(TcpSocket, KnowsTheAddressOfAnInterface) {
  EXPECT_EQ(host_of_interface("lo"), "127.0.0.1");
  EXPECT_EQ(host_of_interface("10.0.0.7"), "10.0.0.7");
  EXPECT_EQ(host_of_interface("no-such"), "no-such");
}

TEST(TcpSocket, ReadsEndpointsAsItWritesThem) {
  for (const char* text : {"10.0.0.7:51122", "[fd00::7]:1"})
    EXPECT_EQ(text_of(parse_endpoint(text).value()), text);
  for (const char* text : {"", "10.0.0.7", "10.0.0.7:", "10.0.0.7:65536", "10.0.0.7:-1", "host:1",
                           "fd00::7:x", "10.0.0.7:1 ", "[10.0.0.7]:1"})
    EXPECT_FALSE(parse_endpoint(text).has_value()) << text;
}

}  // namespace
}  // namespace tributary::memory
