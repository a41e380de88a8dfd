// GETs of the pool beside their bounds: memcpy out of the same mapped memory, and a plain blocking
// read of a socket. Each pair runs in turn in one process, so a busy machine slows both and the
// ratio holds; it is a rate, above 1 where the GET is faster. A GET waits for its owner's turn,
// which a busy machine delays: there only the CPU time of this process says something. Targets at 1
// MiB and above: memfd 0.8; tcp 0.9 without and 0.65 with checksums. The owner is a process of its
// own.

#include <algorithm>
#include <array>
#include <benchmark/benchmark.h>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "core/file/crc32c.h"
#include "core/stopwatch.h"
#include "memory/transport/mapped_memory.h"
#include "memory/transport/socket/unix_socket.h"
#include "memory/transport/tcp.h"
#include "memory/transport/ucx.h"

namespace tributary::memory {
namespace {

constexpr SegmentLayout kLayout{.bytes = std::uint64_t{128} << 20, .page_bytes = 256 << 10};
constexpr std::uint16_t kProcess = 1;
constexpr std::uint64_t kGeneration = 1;

TimePoint now() { return {static_cast<std::int64_t>(now_seconds() * 1e9)}; }
TimePoint soon() { return now() + TimePoint{10'000'000'000}; }

JobKey make_key() {
  const std::array<std::byte, JobKey::kBytes> secret{std::byte{1}};
  return JobKey(secret);
}

LinkEnd make_end(Role role, std::uint16_t process, ObjectServer* server) {
  return {.self = {.rank = process, .world = 2, .role = role, .process = process},
          .epoch = 1,
          .server = server};
}

/// Objects of one size, side by side; whatever is asked for is granted.
class EqualObjects final : public ObjectServer {
 public:
  EqualObjects(const SealedSegment& segment, std::uint64_t bytes)
      : segment_(segment), crc_(crc32c(segment.bytes().first(bytes))) {
    for (std::atomic<std::uint64_t>& page : segment.generations()) page.store(kGeneration);
  }
  Grant grant(const PeerIdentity&, const GetRequest& request) override {
    const std::uint64_t offset = GlobalAddress::from_bits(request.gva).value().offset();
    return {.id = 1,
            .status = Status::kOk,
            .crc32c = crc_,
            .parts = {segment_.bytes().subspan(offset, request.length)}};
  }
  void end_grant(std::uint64_t) override {}
  Status lease(const PeerIdentity&, std::uint64_t, std::span<const LeaseEntry>) override {
    return Status::kOk;
  }
  void unlease(const PeerIdentity&, std::uint64_t) override {}

 private:
  const SealedSegment& segment_;
  std::uint32_t crc_;
};

ObjectHandle handle_of(std::uint64_t number, std::uint64_t bytes, bool has_crc) {
  const std::uint64_t room =
      (bytes + kLayout.page_bytes - 1) / kLayout.page_bytes * kLayout.page_bytes;
  ObjectHandle handle;
  handle.fields.first_gva =
      GlobalAddress::make(Tier::kDram, kProcess, number * room % kLayout.bytes).value().bits();
  handle.fields.generation = kGeneration;
  handle.fields.bytes = bytes;
  handle.fields.crc32c = crc32c(std::vector<std::byte>(bytes));  // the segment is all zero
  handle.fields.epoch = 1;
  handle.fields.flags = has_crc ? 0 : kNoCrc;
  handle.fields.extent_count = 1;
  handle.extents = {{handle.fields.first_gva, bytes}};
  return handle;
}

/// A process that serves until it is killed with this object; first it writes a row to its socket,
/// with the descriptor of its segment beside it.
class Server {
 public:
  explicit Server(const std::function<void(int socket)>& run) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    id_ = fork();
    if (id_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      run(ends[1]);
      _exit(0);
    }
    ::close(ends[1]);
    socket_ = Descriptor(ends[0]);
    std::array<std::byte, 4096> text;
    Received received = receive_with_descriptor(ends[0], text);
    ByteReader words{
        std::span(text).first(static_cast<std::size_t>(std::max<ssize_t>(received.count, 0)))};
    row = get_row(words).value();
    memory = std::move(received.descriptor);
  }
  ~Server() {
    ::kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  SegmentRow row;
  Descriptor memory;

 private:
  pid_t id_ = 0;
  Descriptor socket_;
};

SegmentRow make_row(std::vector<TransportKey> keys) {
  return {.process = kProcess,
          .length = kLayout.bytes,
          .page_bytes = kLayout.page_bytes,
          .epoch = 1,
          .keys = std::move(keys)};
}

void tell(int socket, const SegmentRow& row, int memory) {
  ByteWriter words;
  put_row(words, row);
  const std::vector<std::byte> text = words.take();
  if (send_with_descriptor(socket, text, memory) < 0) _exit(1);
}

void poll_for_ever(Transport& engine) {
  std::array<Completion, 64> events;
  while (true) {
    pollfd wake{.fd = engine.wake_fd(), .events = POLLIN, .revents = 0};
    ::poll(&wake, 1, 5);
    (void)engine.poll(events, now());
  }
}

void serve_memfd(int socket, std::uint64_t bytes) {
  const SealedSegment segment(kLayout);
  EqualObjects objects(segment, bytes);
  MappedMemory engine(make_end(Role::kProducer, kProcess, &objects), make_key());
  const std::string directory =
      std::filesystem::temp_directory_path() / str("tributary_get_bench_", getppid());
  const TransportKey key = engine.share(segment, nullptr, directory, "owner");
  tell(socket, make_row({key}), segment.descriptor());
  poll_for_ever(engine);
}

void serve_tcp(int socket, std::uint64_t bytes) {
  const SealedSegment segment(kLayout);
  EqualObjects objects(segment, bytes);
  Tcp engine(make_end(Role::kProducer, kProcess, &objects), make_key());
  TcpListener listener = listen_on({.host = "127.0.0.1"}, /*allow_public=*/false);
  tell(socket, make_row({endpoint_key(Engine::kTcp, listener.endpoint)}), segment.descriptor());
  engine.listen(std::move(listener));
  poll_for_ever(engine);
}

void serve_ucx(int socket, std::uint64_t bytes) {
  const SealedSegment segment(kLayout);
  EqualObjects objects(segment, bytes);
  const auto engine =
      open_ucx(make_end(Role::kProducer, kProcess, &objects), make_key(), "127.0.0.1").value();
  TcpListener listener = listen_on({.host = "127.0.0.1"}, /*allow_public=*/false);
  tell(socket, make_row({endpoint_key(Engine::kUcx, listener.endpoint)}), segment.descriptor());
  engine->listen(std::move(listener));
  poll_for_ever(*engine);
}

/// Answers each length that it reads with as many bytes of its segment, by blocking calls.
void serve_plainly(int socket) {
  const SealedSegment segment(kLayout);
  const TcpListener listener = listen_on({.host = "127.0.0.1"}, /*allow_public=*/false);
  tell(socket, make_row({endpoint_key(Engine::kTcp, listener.endpoint)}), segment.descriptor());
  pollfd waiting{.fd = listener.socket.get(), .events = POLLIN, .revents = 0};
  ::poll(&waiting, 1, -1);
  const Descriptor peer(accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  std::uint64_t wanted = 0;
  while (recv(peer.get(), &wanted, sizeof wanted, MSG_WAITALL) == sizeof wanted)
    for (std::uint64_t sent = 0; sent < wanted;) {
      const ssize_t count =
          send(peer.get(), segment.bytes().data() + sent, wanted - sent, MSG_NOSIGNAL);
      if (count <= 0) return;
      sent += static_cast<std::uint64_t>(count);
    }
}

/// Reads objects and waits for all of them.
class Puller {
 public:
  Puller(std::unique_ptr<Transport> engine, const SegmentRow& row)
      : engine_(std::move(engine)), link_(engine_->connect(row, soon()).value()) {}

  /// Each object `times` times: whenever one has come, it is asked for again.
  void pull(std::span<const ObjectHandle> handles, std::span<std::byte> into,
            std::uint64_t times = 1) {
    struct Place {
      const ObjectHandle* handle;
      std::span<std::byte> into;
    };
    std::map<TransferId, Place> under_way;
    const auto post = [&](const Place& place) {
      under_way[engine_->post_get(link_, *place.handle, place.into, soon()).value()] = place;
    };
    std::size_t left = handles.size() * times;
    for (const ObjectHandle& handle : handles) {
      post({&handle, into.first(handle.fields.bytes)});
      into = into.subspan(handle.fields.bytes);
    }
    while (left > 0) {
      pollfd wake{.fd = engine_->wake_fd(), .events = POLLIN, .revents = 0};
      ::poll(&wake, 1, 5);
      const std::size_t count = engine_->poll(events_, now());
      for (std::size_t i = 0; i < count; ++i)
        if (const auto* done = std::get_if<TransferDone>(&events_[i])) {
          if (done->status != Status::kOk) std::abort();
          const auto came = under_way.extract(done->transfer);
          if (--left >= handles.size()) post(came.mapped());
        }
    }
  }

 private:
  std::unique_ptr<Transport> engine_;
  PeerLink link_;
  std::array<Completion, 64> events_;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Runs both in turn, and reports the candidate's rate and its ratio to the reference's.
void compare(benchmark::State& state, std::uint64_t bytes, const std::function<void()>& reference,
             const std::function<void()>& candidate) {
  std::vector<double> bound, own;
  double bound_cpu = 0;
  double own_cpu = 0;
  reference();
  candidate();
  for (auto _ : state) {
    const double cpu_begin = process_cpu_seconds();
    Stopwatch watch;
    reference();
    bound.push_back(watch.lap());
    const double cpu_between = process_cpu_seconds();
    watch.lap();
    candidate();
    own.push_back(watch.lap());
    bound_cpu += cpu_between - cpu_begin;
    own_cpu += process_cpu_seconds() - cpu_between;
    state.SetIterationTime(own.back());
  }
  const auto gigabytes = static_cast<double>(bytes) * 1e-9;
  const double all_gigabytes = gigabytes * static_cast<double>(own.size());
  state.counters["GB/s"] = gigabytes / median(own);
  state.counters["bound_GB/s"] = gigabytes / median(bound);
  state.counters["ratio"] = median(bound) / median(own);
  state.counters["cpu_s_per_GB"] = own_cpu / all_gigabytes;
  state.counters["bound_cpu_s_per_GB"] = bound_cpu / all_gigabytes;
}

/// Reads objects, each several times, beside copies of them out of the same memory.
void get_beside_copy(benchmark::State& state, std::uint64_t count, std::uint64_t times,
                     bool has_crc,
                     const std::function<void(int socket, std::uint64_t bytes)>& serve,
                     const std::function<std::unique_ptr<Transport>()>& open_reader) {
  const auto bytes = static_cast<std::uint64_t>(state.range(0));
  const Server server([&](int socket) { serve(socket, bytes); });
  const MappedSegment mapped = MappedSegment::map(server.memory, kLayout).value();
  Puller puller(open_reader(), server.row);
  std::vector<ObjectHandle> handles;
  for (std::uint64_t i = 0; i < count; ++i) handles.push_back(handle_of(i, bytes, has_crc));
  std::vector<std::byte> into(bytes * count);
  compare(
      state, bytes * count * times,
      [&] {
        for (std::uint64_t i = 0; i < count * times; ++i)
          std::memcpy(
              into.data() + i % count * bytes,
              mapped.bytes().data() +
                  GlobalAddress::from_bits(handles[i % count].fields.first_gva).value().offset(),
              bytes);
        benchmark::ClobberMemory();
      },
      [&] { puller.pull(handles, into, times); });
}

/// As many objects as make 16 MiB.
std::uint64_t objects_of(std::int64_t bytes) {
  return std::clamp<std::uint64_t>((16 << 20) / static_cast<std::uint64_t>(bytes), 1, 64);
}

void memfd_get(benchmark::State& state) {
  get_beside_copy(state, objects_of(state.range(0)), 1, /*has_crc=*/true, serve_memfd, [] {
    return std::make_unique<MappedMemory>(make_end(Role::kConsumer, 0, nullptr), make_key());
  });
  std::filesystem::remove_all(std::filesystem::temp_directory_path() /
                              str("tributary_get_bench_", getpid()));
}
BENCHMARK(memfd_get)
    ->ArgName("bytes")
    ->RangeMultiplier(16)
    ->Range(4 << 10, 64 << 20)
    ->UseManualTime();

void ucx_get(benchmark::State& state) {
  if (!load_message_library()) return state.SkipWithError("this build has no UCX");
  // ucx_perftest sends the same memory over and over, which stays in the caches: so do two objects,
  // one of which is always under way, and 16 of them do not.
  const auto count = static_cast<std::uint64_t>(state.range(2));
  get_beside_copy(state, count, 64 / count, state.range(1) != 0, serve_ucx, [] {
    return open_ucx(make_end(Role::kConsumer, 0, nullptr), make_key(), "127.0.0.1").value();
  });
}
BENCHMARK(ucx_get)
    ->ArgNames({"bytes", "crc", "objects"})
    ->ArgsProduct({{64 << 10, 1 << 20}, {0, 1}, {2, 16}})
    ->ArgsProduct({{16 << 20}, {0, 1}, {2, 4}})
    ->UseManualTime();

void tcp_get(benchmark::State& state) {
  const auto bytes = static_cast<std::uint64_t>(state.range(0));
  const Server server([&](int socket) { serve_tcp(socket, bytes); });
  const Server plain([](int socket) { serve_plainly(socket); });
  Puller puller(std::make_unique<Tcp>(make_end(Role::kConsumer, 0, nullptr), make_key()),
                server.row);
  const std::vector<ObjectHandle> handle = {handle_of(0, bytes, state.range(1) != 0)};
  const TransportKey& key = plain.row.keys.front();
  const Descriptor socket =
      start_connecting(
          parse_endpoint({reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()})
              .value())
          .value();
  fcntl(socket.get(), F_SETFL, 0);
  std::vector<std::byte> into(bytes);
  compare(
      state, bytes,
      [&] {
        if (send(socket.get(), &bytes, sizeof bytes, 0) != sizeof bytes) std::abort();
        for (std::uint64_t have = 0; have < bytes;) {
          const ssize_t got = recv(socket.get(), into.data() + have, bytes - have, 0);
          if (got <= 0) std::abort();
          have += static_cast<std::uint64_t>(got);
        }
      },
      [&] { puller.pull(handle, into); });
}
BENCHMARK(tcp_get)
    ->ArgNames({"bytes", "crc"})
    ->ArgsProduct({{4 << 10, 64 << 10, 1 << 20, 8 << 20, 64 << 20}, {0, 1}})
    ->UseManualTime();

}  // namespace
}  // namespace tributary::memory
