#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memory/transport/copy_threads.h"
#include "memory/transport/cuda/device_memory.h"
#include "memory/transport/readable_memory.h"
#include "memory/transport/sealed_segment.h"
#include "memory/transport/socket_links.h"
#include "memory/transport/transport.h"
#include "memory/wire/messages.h"

namespace tributary::memory {

struct MappedOptions {
  std::size_t copy_threads = 1;
  /// One object in `check_every` is checked against its checksum; the lease and the generations
  /// protect all of them.
  std::uint64_t check_every = 64;
  /// The device of this process: then this is the engine `cuda`. Null: it is `memfd`.
  std::shared_ptr<DeviceMemory> device = {};
};

/// Reads objects of other processes of this machine from memory that is mapped. There are two
/// engines of this kind: `memfd` maps segments of the host, and `cuda` their copies on devices too.
/// An object with the flag kOnDevice is then copied from device to device, into memory of either
/// kind; others, and all generations, are read from the segment on the host.
///
/// A unix socket carries the handshake, the descriptors of the memory and the leases. GETs that are
/// posted between two calls of poll() share one lease per owner: it is taken before the memory is
/// read, and given back after the last copy. Scattered objects are sent over the socket, into
/// memory of the host.
class MappedMemory final : public Transport {
 public:
  MappedMemory(LinkEnd end, const JobKey& key, MappedOptions options = {});

  /// Lets peers map the segment and, as the engine `cuda`, its copy on the device, with the same
  /// pages at the same places. They connect at `directory/name`, in a directory that no other user
  /// may open. Returns the key for them.
  ///
  /// owns:   borrows both
  /// errors: those of listen_in_private_directory(); Fault::kResource when the device does not
  ///         share its memory
  TransportKey share(const SealedSegment& segment, const DeviceSegment* copy,
                     const std::string& directory, const std::string& name);

  [[nodiscard]] const TransportTraits& traits() const override;
  Result<PeerLink> connect(const SegmentRow& row, TimePoint deadline) override;
  Result<TransferId> post_get(PeerLink link, const ObjectHandle& handle, std::span<std::byte> into,
                              TimePoint deadline) override;
  [[nodiscard]] Status post_control(PeerLink link, FrameType type,
                                    std::span<const std::byte> body) override;
  std::size_t poll(std::span<Completion> out, TimePoint now) override;
  [[nodiscard]] int wake_fd() const override { return epoll_.get(); }
  void close(PeerLink link, CloseMode mode) override;

  [[nodiscard]] SocketLinks& links() { return links_; }

 private:
  struct MappedGet {
    TransferId id{};
    LeaseEntry object;
    PlacedObject place;
    std::span<std::byte> into;
    TimePoint deadline = {};
  };
  /// GETs that share a lease.
  struct Batch {
    std::vector<MappedGet> waiting;  // for the lease
    std::size_t copying = 0;
  };
  struct Owner {
    SegmentRow row;
    MemoryOffer offer;
    std::vector<Descriptor> came = {};                  // until all are there
    std::shared_ptr<const ReadableMemory> memory = {};  // shared with copies under way
    std::vector<MappedGet> posted = {};                 // since the last poll()
    std::map<std::uint64_t, Batch> batches = {};        // by lease id
    bool drains = false;
    std::optional<LinkClosed> closed = {};  // reported when no copy is under way any more
  };
  using Owners = std::map<PeerLink, Owner>;

  void ask_for_leases();
  void ask_for_lease(PeerLink link, Owner& owner, std::vector<MappedGet> gets);
  void take_lease(PeerLink link, Owner& owner, const AckMessage& ack);
  void start_copy(PeerLink link, std::uint64_t lease, const Owner& owner, MappedGet get);
  void end_copy(PeerLink link, std::uint64_t lease, const MappedGet& get, Status status);
  void end_batch_if_done(PeerLink link, Owner& owner, std::uint64_t lease);
  void send_descriptors(PeerLink link);
  void take_descriptor(PeerLink link, Owner& owner);
  void lose(Owner& owner, LinkClosed closed);
  void expire();
  void expire_in(std::vector<MappedGet>& gets);
  void close_idle();
  void end_get(TransferId id, Status status) { events_.emplace_back(TransferDone{id, status}); }
  void take_event(Completion event);
  [[nodiscard]] bool take_ack(PeerLink link, const Frame& frame);

  SocketLinks links_;
  MappedOptions options_;
  int shared_ = -1;                     // descriptor of the own segment
  std::vector<Descriptor> own_chunks_;  // of its copy on the device
  Owners owners_;
  std::uint64_t last_transfer_ = 0;
  bool has_posted_ = false;
  std::deque<Completion> events_;
  TimePoint now_ = {}, next_scan_ = {};
  Descriptor epoll_;
  Descriptor signal_;   // readable while events_ or posted GETs wait for poll()
  CopyThreads copies_;  // last: its threads end before what they use
};

}  // namespace tributary::memory
