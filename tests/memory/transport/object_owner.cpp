#include "tests/memory/transport/object_owner.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <poll.h>
#include <unistd.h>

#include "core/file/crc32c.h"
#include "core/random.h"

namespace tributary::memory {

std::vector<std::byte> make_bytes(std::uint64_t sample, std::uint64_t bytes) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < made.size(); i += 8) {
    const std::uint64_t word = mix_bits(sample * 1'000'003 + i);
    std::memcpy(&made[i], &word, std::min(made.size() - i, sizeof word));
  }
  return made;
}

JobKey make_key(std::uint8_t seed) {
  std::array<std::byte, JobKey::kBytes> secret{};
  secret.fill(std::byte{seed});
  return JobKey(secret);
}

Membership make_member(std::uint32_t rank, Role role, std::uint16_t process) {
  return {.job = {0x7c, 1},
          .rank = rank,
          .world = 4,
          .role = role,
          .process = process,
          .incarnation = process == ObjectOwner::kProcess ? ObjectOwner::kIncarnation : 1};
}

ObjectOwner::ObjectOwner(std::uint32_t pages, std::uint32_t page_bytes)
    : segment({.bytes = std::uint64_t{pages} * page_bytes, .page_bytes = page_bytes}),
      objects({.tier = Tier::kDram,
               .process = kProcess,
               .offset = 0,
               .page_bytes = page_bytes,
               .pages = pages},
              kEpoch, segment.generations()),
      access(objects, {}) {}

ObjectHandle ObjectOwner::put_bytes(std::uint64_t sample, std::span<const std::byte> bytes,
                                    bool is_on_device) {
  const std::uint32_t page = segment.layout().page_bytes;
  const auto pages = static_cast<std::uint32_t>((bytes.size() + page - 1) / page);
  const SlotId slot =
      objects.reserve({.sample = sample}, /*step=*/sample, pages, Urgency::kLow).value();
  objects.begin_write(slot);
  std::span<const std::byte> left = bytes;
  for (const PageRun& run : objects.slot(slot).runs) {
    const std::size_t count = std::min<std::size_t>(left.size(), std::size_t{run.count} * page);
    std::ranges::copy(left.first(count),
                      segment.bytes().begin() + static_cast<std::ptrdiff_t>(run.first) * page);
    if (is_on_device)
      device->write(left.first(count), copy->bytes().data() + std::size_t{run.first} * page);
    left = left.subspan(count);
  }
  return objects.seal(
      slot,
      {.bytes = bytes.size(), .tokens = 1, .crc32c = crc32c(bytes), .is_on_device = is_on_device});
}

void ObjectOwner::damage(std::uint64_t place) {
  std::byte& byte = segment.bytes()[place];
  byte ^= std::byte{4};
  device->write({&byte, 1}, copy->bytes().data() + place);
}

void ObjectOwner::fragment() {
  std::vector<SlotId> slots;
  while (const auto slot =
             objects.reserve({.sample = 1'000'000 + slots.size()}, 0, 1, Urgency::kLow))
    slots.push_back(*slot);
  for (std::size_t i = 0; i < slots.size(); i += 2) objects.abort(slots[i]);
}

Grant ObjectOwner::grant(const PeerIdentity& peer, const GetRequest& request) {
  const SendObject answer = access.answer(peer, request, now());
  Grant given{.id = answer.grant,
              .status = static_cast<Status>(answer.reply.status),
              .crc32c = answer.reply.crc32c};
  std::uint64_t skip = answer.offset;
  std::uint64_t left = answer.length;
  const std::uint32_t page = segment.layout().page_bytes;
  for (const PageRun& run : answer.runs) {
    const std::uint64_t bytes = std::uint64_t{run.count} * page;
    const std::uint64_t skipped = std::min(skip, bytes);
    const std::uint64_t count = std::min(left, bytes - skipped);
    if (count > 0)
      given.parts.push_back(
          segment.bytes().subspan(std::uint64_t{run.first} * page + skipped, count));
    skip -= skipped;
    left -= count;
  }
  return given;
}

Status ObjectOwner::lease(const PeerIdentity& peer, std::uint64_t lease_id,
                          std::span<const LeaseEntry> entries) {
  return access.lease(peer, {.lease_id = lease_id, .entries = {entries.begin(), entries.end()}},
                      now());
}

void ObjectOwner::unlease(const PeerIdentity& peer, std::uint64_t lease_id) {
  access.unlease(peer, lease_id);
}

SegmentRow ObjectOwner::row(std::vector<TransportKey> keys) const {
  return {.tier = Tier::kDram,
          .process = kProcess,
          .offset = 0,
          .length = segment.layout().bytes,
          .page_bytes = segment.layout().page_bytes,
          .epoch = kEpoch,
          .incarnation = kIncarnation,
          .keys = std::move(keys)};
}

std::string socket_directory() {
  static const std::string directory =
      (std::filesystem::temp_directory_path() / str("tributary_pool_", getpid())).string();
  static const int removed_at_exit = std::atexit([] { std::filesystem::remove_all(directory); });
  (void)removed_at_exit;
  return directory;
}

Served serve(Engine kind, ObjectOwner& owner, SocketLimits limits, const JobKey& key) {
  static int count = 0;
  const LinkEnd end{.self = make_member(0, Role::kProducer, ObjectOwner::kProcess),
                    .epoch = ObjectOwner::kEpoch,
                    .server = &owner,
                    .limits = limits};
  Served served;
  if (kind == Engine::kUcx) {
    auto ucx = open_ucx(end, key, "127.0.0.1").value();
    TcpListener listener = listen_on({.host = "127.0.0.1"}, /*allow_public=*/false);
    served.row = owner.row({endpoint_key(Engine::kUcx, listener.endpoint)});
    ucx->listen(std::move(listener));
    served.links = &ucx->links();
    served.engine = std::move(ucx);
  } else if (kind == Engine::kTcp) {
    auto tcp = std::make_unique<Tcp>(end, key);
    TcpListener listener = listen_on({.host = "127.0.0.1"}, /*allow_public=*/false);
    served.row = owner.row({endpoint_key(Engine::kTcp, listener.endpoint)});
    tcp->listen(std::move(listener));
    served.links = &tcp->links();
    served.engine = std::move(tcp);
  } else {
    const bool has_device = kind == Engine::kCudaMap;
    auto mapped = std::make_unique<MappedMemory>(
        end, key, MappedOptions{.device = has_device ? owner.device : nullptr});
    served.row =
        owner.row({mapped->share(owner.segment, has_device ? owner.copy.get() : nullptr,
                                 socket_directory(), str("owner_", getpid(), "_", count++))});
    served.links = &mapped->links();
    served.engine = std::move(mapped);
  }
  return served;
}

Served open_reader(Engine kind, const ReaderOptions& options) {
  const LinkEnd end{.self = options.self, .epoch = 1};
  Served reader;
  if (kind == Engine::kUcx) {
    auto ucx = open_ucx(end, options.key, "127.0.0.1").value();
    reader.links = &ucx->links();
    reader.engine = std::move(ucx);
  } else if (kind == Engine::kTcp) {
    auto tcp = std::make_unique<Tcp>(end, options.key);
    reader.links = &tcp->links();
    reader.engine = std::move(tcp);
  } else {
    auto mapped = std::make_unique<MappedMemory>(
        end, options.key,
        MappedOptions{.check_every = 1,
                      .device = kind == Engine::kCudaMap ? options.device : nullptr});
    reader.links = &mapped->links();
    reader.engine = std::move(mapped);
  }
  return reader;
}

void Poller::poll_once() {
  for (Transport* engine : engines_) {
    pollfd wake{.fd = engine->wake_fd(), .events = POLLIN, .revents = 0};
    if (engines_.size() == 1) ::poll(&wake, 1, 1);
    std::array<Completion, 8> events;
    const std::size_t count = engine->poll(events, now());
    for (std::size_t i = 0; i < count; ++i) {
      if (const auto* one = std::get_if<TransferDone>(&events[i]))
        done.emplace(one->transfer, one->status);
      if (const auto* one = std::get_if<LinkClosed>(&events[i])) closed.push_back(*one);
      if (const auto* one = std::get_if<LinkOpened>(&events[i])) opened.push_back(*one);
      if (const auto* one = std::get_if<FrameReceived>(&events[i])) frames.push_back(*one);
    }
  }
}

}  // namespace tributary::memory
