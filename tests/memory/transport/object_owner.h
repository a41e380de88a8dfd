#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/stopwatch.h"
#include "memory/protocol/reader_access.h"
#include "memory/transport/mapped_memory.h"
#include "memory/transport/tcp.h"
#include "memory/transport/ucx.h"
#include "tests/memory/transport/host_device.h"

namespace tributary::memory {

[[nodiscard]] inline TimePoint now() { return {static_cast<std::int64_t>(now_seconds() * 1e9)}; }
[[nodiscard]] inline TimePoint in_seconds(double seconds) {
  return now() + TimePoint{static_cast<std::int64_t>(seconds * 1e9)};
}

/// The bytes of a sample's object; no two samples have the same.
[[nodiscard]] std::vector<std::byte> make_bytes(std::uint64_t sample, std::uint64_t bytes);
[[nodiscard]] JobKey make_key(std::uint8_t seed = 1);
[[nodiscard]] Membership make_member(std::uint32_t rank, Role role, std::uint16_t process);

/// A process's segment with objects in it, which its device has too, and the checks of the protocol
/// in front of them.
class ObjectOwner final : public ObjectServer {
 public:
  static constexpr std::uint16_t kProcess = 3;
  static constexpr std::uint32_t kEpoch = 7, kIncarnation = 2;
  static constexpr std::uint8_t kDevice = 1;

  explicit ObjectOwner(std::uint32_t pages, std::uint32_t page_bytes = 64 << 10);

  /// Seals an object of make_bytes(sample, bytes).
  ObjectHandle put(std::uint64_t sample, std::uint64_t bytes) {
    return put_bytes(sample, make_bytes(sample, bytes));
  }
  ObjectHandle put_bytes(std::uint64_t sample, std::span<const std::byte> bytes,
                         bool is_on_device = true);
  /// Changes a byte of the segment, and of its copy.
  void damage(std::uint64_t place);
  /// Takes every other page, so that no two free ones lie beside each other.
  void fragment();

  Grant grant(const PeerIdentity& peer, const GetRequest& request) override;
  void end_grant(std::uint64_t grant_id) override { access.end(grant_id); }
  Status lease(const PeerIdentity& peer, std::uint64_t lease_id,
               std::span<const LeaseEntry> entries) override;
  void unlease(const PeerIdentity& peer, std::uint64_t lease_id) override;

  [[nodiscard]] SegmentRow row(std::vector<TransportKey> keys) const;
  [[nodiscard]] std::size_t in_use() const { return objects.leases() + access.grants(); }

  SealedSegment segment;
  std::shared_ptr<HostDevice> device = std::make_shared<HostDevice>(kDevice);
  std::unique_ptr<DeviceSegment> copy = device->make_segment(segment.layout().bytes).value();
  ObjectTable objects;
  ReaderAccess access;
};

/// Where the tests of this process have their sockets.
[[nodiscard]] std::string socket_directory();

/// An engine that serves, and one that reads from it.
struct Served {
  std::unique_ptr<Transport> engine;
  SocketLinks* links = nullptr;  // of the engine
  SegmentRow row = {};
};
[[nodiscard]] Served serve(Engine kind, ObjectOwner& owner, SocketLimits limits = {},
                           const JobKey& key = make_key());
struct ReaderOptions {
  Membership self = make_member(1, Role::kConsumer, 1);
  JobKey key = make_key();
  /// The engine `cuda` reads into its memory.
  std::shared_ptr<HostDevice> device =
      std::make_shared<HostDevice>(2, std::set{ObjectOwner::kDevice});
};
[[nodiscard]] Served open_reader(Engine kind, const ReaderOptions& options = {});

/// Polls engines of one process in turn, and keeps what they report.
class Poller {
 public:
  explicit Poller(std::vector<Transport*> engines) : engines_(std::move(engines)) {}

  void poll_once();
  /// False when it does not become so within thirty seconds.
  template <class Condition>
  bool until(const Condition& condition) {
    const Stopwatch waited;
    while (!condition() && waited.seconds() < 30) poll_once();
    return condition();
  }
  [[nodiscard]] bool wait_for(TransferId id) {
    return until([&] { return done.contains(id); });
  }

  std::map<TransferId, Status> done;
  std::vector<LinkClosed> closed;
  std::vector<LinkOpened> opened;
  std::vector<FrameReceived> frames;

 private:
  std::vector<Transport*> engines_;
};

}  // namespace tributary::memory
