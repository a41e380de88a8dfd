// The engine over UCX where things go wrong: on a network that a test moves by hand, and with UCX
// itself where it is built.

#include "memory/transport/ucx.h"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <sys/eventfd.h>

#include "tests/memory/transport/object_owner.h"

namespace tributary::memory {
namespace {

/// A worker of this process; its address is its number.
class HandWorker final : public MessageWorker {
 public:
  using Network = std::map<std::byte, HandWorker*>;
  HandWorker(Network& network, std::byte number) : network_(network), number_(number) {
    network_[number_] = this;
  }
  ~HandWorker() override { network_.erase(number_); }

  std::span<const std::byte> address() const override { return {&number_, 1}; }
  Result<MessagePath> open(std::span<const std::byte> address) override {
    if (address.size() != 1 || !network_.contains(address[0]))
      return Refusal{"ucx", "memory: there is no such worker"};
    paths_[MessagePath{++last_}] = address[0];
    return MessagePath{last_};
  }
  void send(MessagePath path, MessageKind kind, std::vector<std::byte> head,
            std::vector<std::span<const std::byte>> parts, std::uint64_t cookie) override {
    Message message{.kind = kind, .head = std::move(head), .bytes = {}};
    for (const std::span<const std::byte> part : parts)
      message.bytes.insert(message.bytes.end(), part.begin(), part.end());
    network_.at(paths_.at(path))->come_.push_back(std::move(message));
    sent_.push_back(cookie);
  }
  void close(MessagePath path) override {
    paths_.erase(path);
    for (const std::uint64_t cookie : std::exchange(held_, {})) lost_.push_back(cookie);
  }
  bool progress(MessageSink& sink) override {
    const auto sent = std::exchange(sent_, {});
    const auto come = std::exchange(come_, {});
    for (const Message& message : come) {
      const MessagePlace place = sink.arrived(message.kind, message.head, message.bytes.size());
      if (place.into.empty()) continue;
      if (holds_bytes) {
        held_.push_back(place.cookie);
        continue;
      }
      std::ranges::copy(message.bytes, place.into.begin());
      sink.placed(place.cookie, true);
    }
    for (const std::uint64_t cookie : sent) sink.sent(cookie, true);
    for (const std::uint64_t cookie : std::exchange(lost_, {})) sink.placed(cookie, false);
    if (std::exchange(fails, false)) sink.failed(paths_.begin()->first, "on purpose");
    return !sent.empty() || !come.empty();
  }
  bool may_sleep() override { return come_.empty() && sent_.empty(); }
  int descriptor() const override { return signal_.get(); }

  bool holds_bytes = false;  // bytes that come do not get to their place before the path is closed
  bool fails = false;        // the first path, in the next progress()

  struct Message {
    MessageKind kind{};
    std::vector<std::byte> head, bytes;
  };
  std::vector<Message> come_;

 private:
  Network& network_;
  std::byte number_;
  std::map<MessagePath, std::byte> paths_;
  std::uint64_t last_ = 0;
  std::vector<std::uint64_t> sent_, held_, lost_;
  Descriptor signal_{eventfd(0, EFD_CLOEXEC)};
};

class UcxByHand : public testing::Test {
 protected:
  UcxByHand() {
    TcpListener listener = listen_on({.host = "127.0.0.1"}, /*allow_public=*/false);
    row = owner.row({endpoint_key(Engine::kUcx, listener.endpoint)});
    serving.listen(std::move(listener));
    link = reading.connect(row, in_seconds(5)).value();
  }
  HandWorker& make_worker(std::byte number, std::unique_ptr<MessageWorker>& kept) {
    auto made = std::make_unique<HandWorker>(network, number);
    HandWorker& worker = *made;
    kept = std::move(made);
    return worker;
  }
  TransferId post(double seconds = 5) {
    return reading.post_get(link, object, into, in_seconds(seconds)).value();
  }
  [[nodiscard]] bool is_connected() {
    const TransferId id = post();
    return poller.wait_for(id) && poller.done[id] == Status::kOk;
  }
  /// A message to the owner, as a GET of this reader would be but for what `change` does.
  template <class Change>
  void send_changed(const Change& change) {
    ASSERT_TRUE(is_connected());
    (void)post();
    ASSERT_TRUE(poller.until([&] {
      reading.poll(events, now());
      return !owner_worker.come_.empty();
    }));
    change(owner_worker.come_.back());
  }

  HandWorker::Network network;
  std::unique_ptr<MessageWorker> first, second;
  HandWorker& owner_worker = make_worker(std::byte{1}, first);
  HandWorker& reader_worker = make_worker(std::byte{2}, second);
  ObjectOwner owner{16};
  ObjectHandle object = owner.put(1, 100'000);
  std::vector<std::byte> into = std::vector<std::byte>(100'000);
  SegmentRow row;
  Ucx serving{{.self = make_member(0, Role::kProducer, ObjectOwner::kProcess),
               .epoch = ObjectOwner::kEpoch,
               .server = &owner},
              make_key(),
              std::move(first)};
  Ucx reading{
      {.self = make_member(1, Role::kConsumer, 1), .epoch = 1}, make_key(), std::move(second)};
  Poller poller{{&serving, &reading}};
  PeerLink link{};
  std::array<Completion, 8> events;
};

TEST_F(UcxByHand, EndsALateGetOnceNothingWritesIntoItsBuffer) {
  ASSERT_TRUE(is_connected());
  reader_worker.holds_bytes = true;
  const TransferId id = post(0.05);
  ASSERT_TRUE(poller.wait_for(id));
  EXPECT_EQ(poller.done[id], Status::kTimeout);
  ASSERT_TRUE(poller.until([&] { return poller.closed.size() == 2; }));  // both ends
  EXPECT_EQ(owner.in_use(), 0);
  EXPECT_FALSE(reading.post_get(link, object, into, in_seconds(1)));
}

TEST_F(UcxByHand, EndsALinkWhosePathFails) {
  ASSERT_TRUE(is_connected());
  reader_worker.holds_bytes = true;
  const TransferId id = post();
  ASSERT_TRUE(poller.until([&] { return owner.in_use() == 0 && !poller.done.contains(id); }));
  reader_worker.fails = true;
  ASSERT_TRUE(poller.wait_for(id));
  EXPECT_EQ(poller.done[id], Status::kBackend);
  ASSERT_TRUE(poller.until([&] { return poller.closed.size() == 2; }));
  EXPECT_EQ(reading.links().refusals().of("ucx"), 1);
}

TEST_F(UcxByHand, CountsMessagesOfNoLinkAndServesTheOthers) {
  using Message = HandWorker::Message;
  send_changed([](Message& message) { message.head[8] ^= std::byte{1}; });  // the token
  ASSERT_TRUE(poller.until([&] { return serving.strangers() == 1; }));
  send_changed([](Message& message) { message.head[0] ^= std::byte{64}; });  // the link
  ASSERT_TRUE(poller.until([&] { return serving.strangers() == 2; }));
  send_changed([](Message& message) { message.head.resize(10); });
  ASSERT_TRUE(poller.until([&] { return serving.strangers() == 3; }));
  EXPECT_TRUE(is_connected());
  EXPECT_TRUE(poller.until([&] { return owner.in_use() == 0; }));
}

TEST_F(UcxByHand, ClosesTheLinkOfAPeerThatBreaksTheForm) {
  send_changed([](HandWorker::Message& message) { message.head.pop_back(); });
  ASSERT_TRUE(poller.until([&] { return serving.links().refusals().of("frame") == 1; }));
  ASSERT_TRUE(poller.until([&] { return poller.closed.size() == 2; }));
}

TEST_F(UcxByHand, ClosesTheLinkOfAPeerThatAsksOutsideOfTheObject) {
  send_changed([](HandWorker::Message& message) {
    // The length of the request, 32 bytes behind the head of 48.
    const std::uint64_t length = 100'001;
    std::memcpy(&message.head[48 + 32], &length, sizeof length);
  });
  ASSERT_TRUE(poller.until([&] { return serving.links().refusals().of("bounds") == 1; }));
  ASSERT_TRUE(poller.until([&] { return poller.closed.size() == 2; }));
  EXPECT_EQ(owner.in_use(), 0);
}

TEST(Ucx, CountsAStrangerWhoKnowsTheAddress) {
  if (!TRIB_HAS_UCX) GTEST_SKIP() << "this build has no UCX";
  const MessageLibrary& library = *load_message_library().value();
  auto worker = library.open_worker("lo").value();
  const std::vector<std::byte> address(worker->address().begin(), worker->address().end());
  ObjectOwner owner(4);
  Ucx serving({.self = make_member(0, Role::kProducer, ObjectOwner::kProcess), .server = &owner},
              make_key(), std::move(worker));
  Poller poller({&serving});

  struct Nobody final : MessageSink {
    MessagePlace arrived(MessageKind, std::span<const std::byte>, std::uint64_t) override {
      return {};
    }
    void placed(std::uint64_t, bool) override {}
    void sent(std::uint64_t, bool) override { ++ended; }
    void failed(MessagePath, const std::string&) override {}
    int ended = 0;
  } nobody;
  auto stranger = library.open_worker("lo").value();
  const MessagePath path = stranger->open(address).value();
  const std::vector<std::byte> large(4 << 20);
  stranger->send(path, MessageKind::kGet, std::vector<std::byte>(96), {}, 1);
  stranger->send(path, MessageKind::kReply, std::vector<std::byte>(72), {large}, 2);
  ASSERT_TRUE(poller.until([&] {
    stranger->progress(nobody);
    return serving.strangers() == 2 && nobody.ended == 2;
  }));
  EXPECT_EQ(owner.in_use(), 0);
}

}  // namespace
}  // namespace tributary::memory
