// Who is let into a pool, and what others are told.

#include <gmock/gmock.h>
#include <sys/socket.h>

#include "core/error.h"
#include "memory/progress/pool_directory.h"
#include "memory/transport/socket/handshake.h"
#include "memory/transport/socket/tcp_socket.h"
#include "memory/wire/messages.h"
#include "tests/memory/progress/small_pool.h"

namespace tributary::memory {
namespace {

/// A producer with these options is not let in, and is told why.
void expect_refused(const PoolProducerOptions& options, ExitCode code, const std::string& reason) {
  try {
    const PoolProducer producer(options);
    ADD_FAILURE() << "it was let in, though " << reason;
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), code) << error.what();
    EXPECT_THAT(error.what(), testing::HasSubstr(reason));
  }
}

TEST(JoiningPool, RefusesAProcessNumberThatIsTaken) {
  Pool pool;
  PoolProducerOptions options = producer_options(pool.directory.path());
  options.process = 7;
  const Encoder encoder(options);
  options.patience = milliseconds(50);
  EXPECT_TRUE(until([&] {  // a busy machine may not answer within the patience
    EXPECT_THROW(PoolProducer{options}, Error);
    return pool.controller->counts().refusals["taken"] > 0;
  }));
  EXPECT_EQ(pool.controller->counts().producers, 1);
  options.process = 1;  // a reader's
  EXPECT_THROW(PoolProducer{options}, Error);
}

TEST(JoiningPool, SaysWhatAProducerOrReaderLacks) {
  const JobDirectory empty;
  PoolProducerOptions options = producer_options(empty.path());
  options.patience = milliseconds(10);
  expect_refused(options, ExitCode::kPeerLost, "no controller is there");
  const Pool pool;
  options.directory = pool.directory.path();
  options.capacity_bytes = kLargest * kPoolPage;
  expect_refused(options, ExitCode::kInput, "do not hold more than");
  EXPECT_THROW(
      PoolReader({.directory = options.directory, .consumer = 1, .patience = options.patience}),
      Error);
  EXPECT_THROW(
      PoolReader({.directory = options.directory, .first_step = 1, .patience = options.patience}),
      Error);
}

TEST(JoiningPool, WaitsForTheNextControllerWhereAKilledOneLeftItsFile) {
  JobDirectory directory;
  {
    const Pool pool;
    PoolJob job = find_pool(pool.directory.path()).value().job;
    job.reserve_pages = 1 << 20;
    (void)write_pool_key(directory.path());
    publish_controller(directory.path(), job);
  }
  PoolProducerOptions options = producer_options(directory.path());
  options.patience = milliseconds(200);
  expect_refused(options, ExitCode::kPeerLost, "the controller is gone");
}

TEST(JoiningPool, TellsAProducerThatItsKeyIsAnother) {
  const Pool pool;
  const JobDirectory other;
  (void)write_pool_key(other.path());
  publish_controller(other.path(), find_pool(pool.directory.path()).value().job);
  PoolProducerOptions options = producer_options(other.path());
  options.patience = milliseconds(500);
  expect_refused(options, ExitCode::kInput, "does not hold the job key");
}

TEST(JoiningPool, RefusesAStrangerAndCountsIt) {
  Pool pool;
  const FoundPool found = find_pool(pool.directory.path()).value();
  const JobKey wrong(std::array<std::byte, JobKey::kBytes>{});
  Descriptor socket = start_connecting(parse_endpoint(found.job.endpoint).value()).value();
  const ClientHandshake client(found.job.member(Role::kProducer, 20, 1), wrong, draw_nonce());
  const auto send_frame = [&](FrameType type, const Message& message) {
    const auto frame = frame_bytes(type, 0, 0, body_of(message));
    EXPECT_TRUE(until([&] {
      return ::send(socket.get(), frame.data(), frame.size(), MSG_NOSIGNAL) ==
             static_cast<ssize_t>(frame.size());
    }));
  };
  send_frame(FrameType::kHello, client.hello());
  send_frame(FrameType::kConfirm, Confirm{.mac = {1}});
  EXPECT_TRUE(until([&] { return pool.controller->counts().refusals["key"] == 1; }));
  EXPECT_EQ(pool.controller->counts().joined, 0);
}

}  // namespace
}  // namespace tributary::memory
