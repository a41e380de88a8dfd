#include "memory/transport/mapped_memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>
#include <variant>

#include "core/error.h"
#include "memory/address/global_address.h"
#include "memory/transport/choose_engine.h"
#include "memory/transport/socket/unix_socket.h"

namespace tributary::memory {
namespace {

constexpr std::uint64_t kMapped = std::uint64_t{1} << 63;     // marks transfers of this file
constexpr std::size_t kMaxEntries = 1024;                     // of one lease
constexpr std::size_t kCopiedAtOnce = std::size_t{64} << 10;  // bytes, on the progress thread
constexpr TimePoint kExpireEvery = {5'000'000};

/// Where an object lies in a segment; empty when its extents do not fit to the row.
std::vector<PageRun> runs_of(const ObjectHandle& handle, const SegmentRow& row) {
  std::vector<PageRun> runs;
  for (const Extent& extent : handle.extents) {
    const Result<GlobalAddress> address = GlobalAddress::from_bits(extent.gva);
    if (!address || address.value().tier() != row.tier || address.value().process() != row.process)
      return {};
    const std::uint64_t offset = address.value().offset() - row.offset;  // wraps when below
    const bool is_last = &extent == &handle.extents.back();
    if (offset >= row.length || offset % row.page_bytes != 0 || extent.bytes == 0 ||
        extent.bytes > row.length - offset || (!is_last && extent.bytes % row.page_bytes != 0))
      return {};
    const std::uint64_t pages = (extent.bytes + row.page_bytes - 1) / row.page_bytes;
    runs.push_back(
        {static_cast<std::uint32_t>(offset / row.page_bytes), static_cast<std::uint32_t>(pages)});
  }
  return runs;
}

/// Rises over all engines of this process, also those that are opened again: an owner may get
/// leases from several of them.
std::uint64_t next_lease(TimePoint now) {
  static std::atomic<std::uint64_t> last = 0;
  std::uint64_t before = last;
  std::uint64_t next = 0;
  do next = std::max(before + 1, static_cast<std::uint64_t>(now.count));
  while (!last.compare_exchange_weak(before, next));
  return next;
}

}  // namespace

MappedMemory::MappedMemory(LinkEnd end, const JobKey& key, MappedOptions options)
    : links_(std::move(end), key),
      options_(options),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      signal_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      copies_(options.copy_threads) {
  for (const int descriptor : {links_.wake_fd(), signal_.get(), copies_.wake_fd()})
    watch(epoll_.get(), descriptor);
}

TransportKey MappedMemory::share(const SealedSegment& segment, const DeviceSegment* copy,
                                 const std::string& directory, const std::string& name) {
  const std::string path = str(directory, "/", name);
  if (copy != nullptr) {
    Result<std::vector<Descriptor>> chunks = copy->export_chunks();
    if (!chunks)
      TRIB_RAISE(Fault::kResource, .what = "memory: device does not share its memory",
                 .found = chunks.refusal().reason, .fix = "take cuda out of pool.engines");
    own_chunks_ = std::move(chunks).value();
  }
  shared_ = segment.descriptor();
  links_.listen(listen_in_private_directory(directory, name));
  return copy == nullptr ? memfd_key(path)
                         : cuda_key({.path = path,
                                     .device = options_.device->id(),
                                     .chunk_bytes = copy->layout().chunk_bytes});
}

const TransportTraits& MappedMemory::traits() const {
  const auto traits_of = [](Engine engine) {
    return TransportTraits{.engine = engine,
                           .name = name_of(engine),
                           .reach = Reach::kHost,
                           .reads_dram = true,
                           .reads_hbm = false,
                           .needs_owner_progress = true,
                           .bounds_checked_by_owner = false,
                           .cancellable = false};
  };
  static const TransportTraits kMemfd = traits_of(Engine::kMemfd);
  static const TransportTraits kCuda = traits_of(Engine::kCudaMap);
  return options_.device ? kCuda : kMemfd;
}

Result<PeerLink> MappedMemory::connect(const SegmentRow& row, TimePoint deadline) {
  const Result<MemoryOffer> offer = find_offer(row, traits().engine);
  if (!offer) return offer.refusal();
  if (options_.device)
    if (auto obstacle = options_.device->find_obstacle(offer.value().device))
      return *std::move(obstacle);
  const std::string& path = offer.value().path;
  Result<Descriptor> socket = connect_to_path(path);
  if (!socket) return socket.refusal();
  const PeerLink link = links_.connect(std::move(socket).value(), row, path, deadline);
  owners_.emplace(link, Owner{.row = row, .offer = offer.value()});
  return link;
}

Result<TransferId> MappedMemory::post_get(PeerLink link, const ObjectHandle& handle,
                                          std::span<std::byte> into, TimePoint deadline) {
  check_buffer(into, handle);
  if ((handle.fields.flags & kScattered) != 0) return links_.post_get(link, handle, into, deadline);
  const auto owner = owners_.find(link);
  if (owner == owners_.end() || owner->second.closed || owner->second.drains)
    return Refusal{"peer_lost", "memory: link is closed"};
  std::vector<PageRun> runs = runs_of(handle, owner->second.row);
  if (runs.empty())
    return Refusal{"backend", str("memory: extents of a handle lie outside the segment of process ",
                                  owner->second.row.process)};
  const TransferId id{kMapped | ++last_transfer_};
  std::optional<std::uint32_t> checksum = checksum_of(handle.fields);
  if (checksum && last_transfer_ % options_.check_every != 0) checksum.reset();
  owner->second.posted.push_back(
      {.id = id,
       .object = {handle.fields.first_gva, handle.fields.generation},
       .place = {.runs = std::move(runs),
                 .generation = handle.fields.generation,
                 .crc32c = checksum,
                 .is_on_device = options_.device != nullptr && is_on_device(handle.fields)},
       .into = into,
       .deadline = deadline});
  const std::uint64_t one = 1;
  if (!std::exchange(has_posted_, true)) [[maybe_unused]]
    const ssize_t written = write(signal_.get(), &one, sizeof one);
  return id;
}

Status MappedMemory::post_control(PeerLink link, FrameType type, std::span<const std::byte> body) {
  return links_.post_control(link, type, body);
}

// Leases and copies.

void MappedMemory::ask_for_leases() {
  if (!std::exchange(has_posted_, false)) return;
  for (auto& [link, owner] : owners_) {
    has_posted_ = has_posted_ || (!owner.memory && !owner.posted.empty());
    if (!owner.memory) continue;
    std::vector<MappedGet> posted = std::exchange(owner.posted, {});
    for (std::size_t begin = 0; begin < posted.size(); begin += kMaxEntries) {
      const auto first =
          std::make_move_iterator(posted.begin() + static_cast<std::ptrdiff_t>(begin));
      const std::size_t count = std::min(kMaxEntries, posted.size() - begin);
      ask_for_lease(link, owner, {first, first + static_cast<std::ptrdiff_t>(count)});
    }
  }
}

void MappedMemory::ask_for_lease(PeerLink link, Owner& owner, std::vector<MappedGet> gets) {
  LeaseMessage message{.lease_id = next_lease(now_), .entries = {}};
  for (const MappedGet& get : gets) message.entries.push_back(get.object);
  owner.batches[message.lease_id].waiting = std::move(gets);
  const Status status = links_.post_control(link, FrameType::kLease, body_of(message));
  if (status != Status::kBusy) return;  // a link that is lost ends its GETs when it says so
  for (const MappedGet& get : owner.batches[message.lease_id].waiting) end_get(get.id, status);
  owner.batches.erase(message.lease_id);
}

void MappedMemory::take_lease(PeerLink link, Owner& owner, const AckMessage& ack) {
  const auto found = owner.batches.find(ack.sequence);
  if (found == owner.batches.end() || found->second.copying > 0)
    return links_.refuse(
        link, {"lease", str("memory: owner gives a lease that nobody asked for: ", ack.sequence)});
  std::vector<MappedGet> gets = std::exchange(found->second.waiting, {});
  if (ack.status == Status::kOk) {
    found->second.copying = gets.size();
    for (MappedGet& get : gets) start_copy(link, ack.sequence, owner, std::move(get));
    return end_batch_if_done(link, owner, ack.sequence);
  }
  owner.batches.erase(found);
  // One object of the batch is gone: each gets a lease of its own, so it holds no other back.
  if (ack.status == Status::kStale && gets.size() > 1)
    for (MappedGet& get : gets) ask_for_lease(link, owner, {std::move(get)});
  else
    for (const MappedGet& get : gets) end_get(get.id, ack.status);
}

void MappedMemory::start_copy(PeerLink link, std::uint64_t lease, const Owner& owner,
                              MappedGet get) {
  if (get.into.size() <= kCopiedAtOnce && !get.place.is_on_device)
    return end_copy(link, lease, get, owner.memory->copy_out(get.place, get.into));
  copies_.run(
      [this, link, lease, memory = owner.memory, get = std::move(get)]() -> std::function<void()> {
        return [this, link, lease, get, status = memory->copy_out(get.place, get.into)] {
          end_copy(link, lease, get, status);
          end_batch_if_done(link, owners_.at(link), lease);
        };
      });
}

void MappedMemory::end_copy(PeerLink link, std::uint64_t lease, const MappedGet& get,
                            Status status) {
  Owner& owner = owners_.at(link);
  --owner.batches.at(lease).copying;
  // A copy that outlived its lease or its deadline counts for nothing.
  if (owner.closed)
    status = owner.closed->status == Status::kOk ? Status::kBackend : owner.closed->status;
  else if (now_ >= get.deadline)
    status = Status::kTimeout;
  end_get(get.id, status);
}

void MappedMemory::end_batch_if_done(PeerLink link, Owner& owner, std::uint64_t lease) {
  if (owner.batches.at(lease).copying > 0) return;
  owner.batches.erase(lease);
  (void)links_.post_control(link, FrameType::kUnlease, body_of(UnleaseMessage{lease}));
}

// What comes over the sockets.

void MappedMemory::send_descriptors(PeerLink link) {
  AckMessage ack{.type = FrameType::kConfirm, .status = Status::kOk, .sequence = 0, .key = {}};
  (void)links_.send_descriptor(link, FrameType::kAck, body_of(ack), shared_);
  for (const Descriptor& chunk : own_chunks_) {
    ++ack.sequence;
    (void)links_.send_descriptor(link, FrameType::kAck, body_of(ack), chunk.get());
  }
}

/// Maps the owner's memory when the last one has come; they are closed then.
void MappedMemory::take_descriptor(PeerLink link, Owner& owner) {
  if (owner.memory)
    return links_.refuse(link, {"descriptors", "memory: owner sends more memory than it has"});
  owner.came.push_back(links_.take_descriptor(link));
  const DeviceLayout layout{.bytes = owner.row.length, .chunk_bytes = owner.offer.chunk_bytes};
  if (owner.came.size() < 1 + (options_.device ? layout.chunks() : 0)) return;
  Result<ReadableMemory> mapped =
      ReadableMemory::map(owner.row, owner.offer, std::exchange(owner.came, {}), options_.device);
  if (!mapped) return links_.refuse(link, mapped.refusal());
  owner.memory = std::make_shared<const ReadableMemory>(std::move(mapped).value());
}

bool MappedMemory::take_ack(PeerLink link, const Frame& frame) {
  const auto owner = owners_.find(link);
  const Result<Message> message = parse_message(FrameType::kAck, frame.body);
  if (!message) {
    links_.refuse(link, message.refusal());
    return true;
  }
  const auto& ack = std::get<AckMessage>(message.value());
  if (owner == owners_.end() || owner->second.closed) return false;
  if (ack.type == FrameType::kLease)
    take_lease(link, owner->second, ack);
  else if (ack.type == FrameType::kConfirm)
    take_descriptor(link, owner->second);
  else
    return false;
  return true;
}

void MappedMemory::take_event(Completion event) {
  if (const auto* opened = std::get_if<LinkOpened>(&event); opened != nullptr && shared_ >= 0)
    send_descriptors(opened->link);
  if (const auto* received = std::get_if<FrameReceived>(&event);
      received != nullptr && received->frame.type() == FrameType::kAck &&
      take_ack(received->link, received->frame))
    return;
  if (const auto* closed = std::get_if<LinkClosed>(&event)) {
    const auto owner = owners_.find(closed->link);
    if (owner != owners_.end()) return lose(owner->second, *closed);
  }
  events_.push_back(std::move(event));
}

void MappedMemory::lose(Owner& owner, LinkClosed closed) {
  const Status status = closed.status == Status::kOk ? Status::kBackend : closed.status;
  for (const MappedGet& get : owner.posted) end_get(get.id, status);
  owner.posted.clear();
  for (auto& [lease, batch] : owner.batches)
    for (const MappedGet& get : std::exchange(batch.waiting, {})) end_get(get.id, status);
  std::erase_if(owner.batches, [](const auto& each) { return each.second.copying == 0; });
  owner.closed = std::move(closed);
}

void MappedMemory::expire_in(std::vector<MappedGet>& gets) {
  std::erase_if(gets, [&](const MappedGet& get) {
    if (now_ < get.deadline) return false;
    end_get(get.id, Status::kTimeout);
    return true;
  });
}

void MappedMemory::expire() {
  next_scan_ = now_ + kExpireEvery;
  for (auto& [link, owner] : owners_) {
    expire_in(owner.posted);
    for (auto& [lease, batch] : owner.batches) expire_in(batch.waiting);
  }
}

void MappedMemory::close_idle() {
  for (auto each = owners_.begin(); each != owners_.end();) {
    auto& [link, owner] = *each;
    const bool is_idle = owner.posted.empty() && owner.batches.empty();
    if (is_idle && owner.drains && !owner.closed) links_.close(link, CloseMode::kDrain);
    if (is_idle && owner.closed) events_.emplace_back(*std::move(owner.closed));
    each = is_idle && owner.closed ? owners_.erase(each) : std::next(each);
  }
}

std::size_t MappedMemory::poll(std::span<Completion> out, TimePoint now) {
  now_ = now;
  ask_for_leases();
  std::array<Completion, 64> events;
  const bool has_room = events_.size() < out.size();
  const std::size_t count = has_room ? links_.poll(events, now) : 0;
  for (std::size_t i = 0; i < count; ++i) take_event(std::move(events[i]));
  copies_.collect();
  ask_for_leases();
  if (now_ >= next_scan_) expire();
  close_idle();

  const std::size_t reported = hand_over(events_, out);
  std::uint64_t counter = 0;
  [[maybe_unused]] ssize_t bytes = ::read(signal_.get(), &counter, sizeof counter);
  if (!events_.empty()) bytes = write(signal_.get(), &(counter = 1), sizeof counter);
  return reported;
}

void MappedMemory::close(PeerLink link, CloseMode mode) {
  const auto owner = owners_.find(link);
  if (owner == owners_.end() || mode == CloseMode::kForce) return links_.close(link, mode);
  owner->second.drains = true;
}

}  // namespace tributary::memory
