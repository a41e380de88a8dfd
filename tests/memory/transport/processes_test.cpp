// Owners and readers in processes of their own, which are stopped and killed.

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <poll.h>
#include <set>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tests/memory/built_engines.h"
#include "tests/memory/full_size.h"
#include "tests/memory/transport/object_owner.h"

namespace tributary::memory {
namespace {

constexpr std::uint64_t kBytes = 4 << 20;

/// A process that runs a function, until it is killed at the latest with this object.
class Process {
 public:
  explicit Process(const std::function<void(int socket)>& run) {
    (void)socket_directory();  // the same one in both processes
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const pid_t parent = getpid();
    id_ = fork();
    if (id_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(ends[0]);
      if (getppid() == parent) run_alone(run, ends[1]);
      _exit(0);
    }
    ::close(ends[1]);
    socket_ = Descriptor(ends[0]);
  }
  ~Process() {
    if (id_ > 0) kill_now();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number) const { ::kill(id_, number); }
  void kill_now() {
    signal(SIGKILL);
    int status = 0;
    waitpid(std::exchange(id_, 0), &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        << "ended by itself: " << status;
  }
  [[nodiscard]] int socket() const { return socket_.get(); }

 private:
  /// An exception must not reach the test in the child, which would run the others of the program.
  static void run_alone(const std::function<void(int socket)>& run, int socket) {
    try {
      run(socket);
    } catch (const std::exception& error) {
      fprintf(stderr, "%s\n", error.what());
      _exit(1);
    }
  }

  pid_t id_ = 0;
  Descriptor socket_;
};

/// Owns one object, and serves it for ever; says first where.
void run_owner(Engine kind, int socket) {
  ObjectOwner owner(64);
  const ObjectHandle handle = owner.put(1, kBytes);
  const Served served = serve(kind, owner);
  ByteWriter words;
  put_row(words, served.row);
  put_handle(words, handle);
  const std::vector<std::byte> text = words.take();
  if (::write(socket, text.data(), text.size()) < 0) return;
  Poller poller({served.engine.get()});
  while (true) poller.poll_once();
}

struct OwnerProcess {
  explicit OwnerProcess(Engine kind) : process([kind](int socket) { run_owner(kind, socket); }) {
    std::array<std::byte, 4096> text;
    const ssize_t count = ::read(process.socket(), text.data(), text.size());
    ByteReader words{std::span(text).first(static_cast<std::size_t>(std::max<ssize_t>(count, 0)))};
    row = get_row(words).value();
    handle = get_handle(words).value();
  }
  Process process;
  SegmentRow row;
  ObjectHandle handle;
};

void write_row(int socket, const SegmentRow& row) {
  ByteWriter words;
  put_row(words, row);
  const std::vector<std::byte> text = words.take();
  EXPECT_EQ(::write(socket, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

SegmentRow read_row(int socket) {
  std::array<std::byte, 4096> text;
  const ssize_t count = ::read(socket, text.data(), text.size());
  ByteReader words{std::span(text).first(static_cast<std::size_t>(std::max<ssize_t>(count, 0)))};
  return get_row(words).value();
}

struct Reading {
  explicit Reading(Engine kind, const SegmentRow& row)
      : reader(open_reader(kind)),
        poller({reader.engine.get()}),
        link(reader.engine->connect(row, in_seconds(5)).value()) {}

  TransferId post(const ObjectHandle& handle, double seconds = 5) {
    return reader.engine->post_get(link, handle, into, in_seconds(seconds)).value();
  }
  Served reader;
  Poller poller;
  PeerLink link;
  std::vector<std::byte> into = std::vector<std::byte>(kBytes);
};

class Processes : public testing::TestWithParam<Engine> {};

TEST_P(Processes, ReadEachOther) {
  const OwnerProcess owner(GetParam());
  Reading reading(GetParam(), owner.row);
  for (int i = 0; i < 3; ++i) {
    std::ranges::fill(reading.into, std::byte{0});
    const TransferId id = reading.post(owner.handle);
    ASSERT_TRUE(reading.poller.wait_for(id));
    EXPECT_EQ(reading.poller.done[id], Status::kOk);
    EXPECT_TRUE(reading.into == make_bytes(1, kBytes));
  }
}

TEST_P(Processes, NoticeInTimeThatTheOwnerWasKilled) {
  for (int round = 0; round < 4; ++round) {
    OwnerProcess owner(GetParam());
    Reading reading(GetParam(), owner.row);
    if (round == 0) owner.process.signal(SIGSTOP);
    const TransferId id = reading.post(owner.handle);
    for (int i = 0; i < 4 * round; ++i) reading.poller.poll_once();
    owner.process.kill_now();
    const Stopwatch waited;
    ASSERT_TRUE(reading.poller.wait_for(id));
    EXPECT_LT(waited.seconds(), 5);
    const Status status = reading.poller.done[id];
    const bool came_before = round > 0 && status == Status::kOk;
    EXPECT_TRUE(came_before ? reading.into == make_bytes(1, kBytes) : status == Status::kPeerLost)
        << name_of(status);
    EXPECT_TRUE(reading.poller.until([&] { return reading.poller.closed.size() == 1; }));
  }
}

TEST_P(Processes, EndAtTheDeadlineWhenTheOwnerIsStopped) {  // I17
  const OwnerProcess owner(GetParam());
  Reading reading(GetParam(), owner.row);
  ASSERT_TRUE(reading.poller.wait_for(reading.post(owner.handle)));
  owner.process.signal(SIGSTOP);
  const Stopwatch waited;
  const TransferId id = reading.post(owner.handle, /*seconds=*/0.2);
  ASSERT_TRUE(reading.poller.wait_for(id));
  EXPECT_EQ(reading.poller.done[id], Status::kTimeout);
  EXPECT_GE(waited.seconds(), 0.18);
  EXPECT_LT(waited.seconds(), 5);
  owner.process.signal(SIGCONT);
  const TransferId again = reading.post(owner.handle);
  ASSERT_TRUE(reading.poller.wait_for(again));
  EXPECT_EQ(reading.poller.done[again], Status::kOk);
  EXPECT_TRUE(reading.into == make_bytes(1, kBytes));
}

TEST_P(Processes, LeaveNoLeaseAndNoOwnerBehindWhenAReaderIsKilled) {  // I9
  // Larger than what sockets take in: a reader that stands still keeps it granted.
  constexpr std::uint64_t kLargeBytes = 24 << 20;
  const int rounds = cases(6, 100);
  ObjectOwner owner(kLargeBytes / 65536);
  const ObjectHandle handle = owner.put(1, kLargeBytes);
  // An engine may have threads, so that nothing is forked after it.
  std::deque<Process> readers;
  for (int round = 0; round < rounds; ++round)
    readers.emplace_back([&](int socket) {
      Reading reading(GetParam(), read_row(socket));
      reading.into.resize(kLargeBytes);
      while (true) (void)reading.poller.wait_for(reading.post(handle));
    });
  const Served served = serve(GetParam(), owner);
  Poller poller({served.engine.get()});
  for (int round = 0; round < rounds; ++round) {
    Process& reader = readers[static_cast<std::size_t>(round)];
    write_row(reader.socket(), served.row);
    ASSERT_TRUE(poller.until([&] { return owner.in_use() > 0; }));
    for (int i = 0; i < round % 8; ++i) poller.poll_once();
    // Stopped with requests that wait, and never to go on: others of this field lose the owner
    // here.
    if (round % 2 == 1) reader.signal(SIGSTOP);
    for (int i = 0; i < round % 8; ++i) poller.poll_once();
    reader.kill_now();
    EXPECT_TRUE(poller.until([&] { return owner.in_use() == 0; }));
  }
  owner.objects.retire_through(1);
  EXPECT_EQ(owner.objects.arena().used_pages(), 0);
}

TEST_P(Processes, ServeOnAfterAReaderDiedWhileTheyStoodStill) {
  const OwnerProcess owner(GetParam());
  for (int round = 0; round < 3; ++round) {
    Process reader([&](int socket) {
      Reading reading(GetParam(), owner.row);
      (void)reading.poller.wait_for(reading.post(owner.handle));
      std::vector<std::vector<std::byte>> into(16, std::vector<std::byte>(kBytes));
      for (std::vector<std::byte>& each : into)
        (void)reading.reader.engine->post_get(reading.link, owner.handle, each, in_seconds(30));
      if (::write(socket, "x", 1) == 1)
        while (true) reading.poller.poll_once();
    });
    char byte = 0;
    ASSERT_EQ(::read(reader.socket(), &byte, 1), 1);
    owner.process.signal(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // requests and bytes wait
    reader.kill_now();
    owner.process.signal(SIGCONT);
  }
  Reading reading(GetParam(), owner.row);
  const TransferId id = reading.post(owner.handle);
  ASSERT_TRUE(reading.poller.wait_for(id));
  EXPECT_EQ(reading.poller.done[id], Status::kOk);
  EXPECT_TRUE(reading.into == make_bytes(1, kBytes));
}

std::set<std::string> names_in(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.insert(entry.path().filename());
  return names;
}

TEST(KilledOwner, LeavesNothingAfterTheNextStart) {  // I22
  ObjectOwner own(4);
  const Served living = serve(Engine::kMemfd, own);
  const std::set<std::string> sockets = names_in(socket_directory());
  const std::set<std::string> shared = names_in("/dev/shm");
  {
    OwnerProcess killed(Engine::kMemfd);
    killed.process.kill_now();
  }
  EXPECT_EQ(names_in("/dev/shm"), shared);
  EXPECT_EQ(names_in(socket_directory()).size(), sockets.size() + 1);
  const Served next = serve(Engine::kMemfd, own);  // takes away what the dead one left
  std::set<std::string> left = names_in(socket_directory());
  EXPECT_EQ(left.size(), sockets.size() + 1);
  EXPECT_TRUE(std::ranges::includes(left, sockets));  // and leaves the living
}

INSTANTIATE_TEST_SUITE_P(Engines, Processes, testing::ValuesIn(socket_engines()), engine_of_case);

}  // namespace
}  // namespace tributary::memory
