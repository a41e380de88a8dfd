#include "memory/transport/readable_memory.h"

#include <utility>

#include "core/file/crc32c.h"
#include "core/log.h"
#include "core/text.h"
#include "memory/bytes.h"
#include "memory/object/generations.h"

namespace tributary::memory {

TransportKey memfd_key(const std::string& path) {
  const auto bytes = std::as_bytes(std::span(path));
  return {.engine = Engine::kMemfd, .bytes = {bytes.begin(), bytes.end()}};
}

TransportKey cuda_key(const MemoryOffer& offer) {
  ByteWriter key;
  key.put(offer.device);
  key.put(offer.chunk_bytes);
  key.put_bytes(std::as_bytes(std::span(offer.path)));
  return {.engine = Engine::kCudaMap, .bytes = key.take()};
}

Result<MemoryOffer> find_offer(const SegmentRow& row, Engine engine) {
  const TransportKey* key = row.find_key(engine);
  if (key == nullptr)
    return Refusal{"key", str("memory: row of process ", row.process, " has no shared memory")};
  MemoryOffer offer;
  ByteReader bytes(key->bytes);
  if (engine == Engine::kCudaMap) {
    offer.device = bytes.get<DeviceId>();
    offer.chunk_bytes = bytes.get<std::uint64_t>();
    constexpr std::uint64_t kMaxChunkBytes = std::uint64_t{1} << 40, kMaxChunks = 4096;
    if (bytes.failed() || offer.chunk_bytes == 0 || offer.chunk_bytes > kMaxChunkBytes ||
        row.length / offer.chunk_bytes > kMaxChunks)
      return Refusal{"key", str("memory: row of process ", row.process,
                                " names no device, or too small chunks")};
  }
  const std::size_t before =
      engine == Engine::kCudaMap ? sizeof(DeviceId) + sizeof(std::uint64_t) : 0;
  const auto path = bytes.get_bytes(key->bytes.size() - before);
  offer.path.assign(reinterpret_cast<const char*>(path.data()), path.size());
  return offer;
}

Result<ReadableMemory> ReadableMemory::map(const SegmentRow& row, const MemoryOffer& offer,
                                           std::vector<Descriptor> descriptors,
                                           std::shared_ptr<DeviceMemory> device) {
  Result<MappedSegment> segment =
      MappedSegment::map(descriptors.front(), {.bytes = row.length, .page_bytes = row.page_bytes});
  if (!segment) return segment.refusal();
  ReadableMemory memory(std::move(segment).value());
  if (!device) return memory;
  descriptors.erase(descriptors.begin());
  Result<std::unique_ptr<DeviceSegment>> copy = device->map_segment(
      std::move(descriptors), {.bytes = row.length, .chunk_bytes = offer.chunk_bytes});
  if (!copy) return copy.refusal();
  memory.device_ = std::move(device);
  memory.copy_ = std::move(copy).value();
  // Nothing but this class has its addresses, so that nobody writes there in either case.
  log_note(
      str("memory: device memory of process ", row.process, " is mapped ",
          memory.copy_->is_read_only() ? "read-only" : "writable, as the driver has no other"));
  return memory;
}

Status ReadableMemory::copy_out(const PlacedObject& object, std::span<std::byte> into) const {
  const Status status = object.is_on_device ? copy_from_device(object, into)
                                            : copy_object(segment_.generations(), segment_.bytes(),
                                                          segment_.layout().page_bytes, object.runs,
                                                          object.generation, into);
  return status == Status::kOk ? check(object, into) : status;
}

Status ReadableMemory::copy_from_device(const PlacedObject& object,
                                        std::span<std::byte> into) const {
  const auto copy = [&](std::span<const ObjectPiece> pieces) {
    std::vector<DeviceCopy> copies;
    for (const ObjectPiece& piece : pieces)
      if (piece.bytes > 0)
        copies.push_back({.to = into.data() + piece.in_object,
                          .from = copy_->bytes().data() + piece.in_segment,
                          .bytes = piece.bytes});
    return copy_on_device(copies);
  };
  return copy_object(segment_.generations(), segment_.layout().page_bytes, object.runs,
                     object.generation, into.size(), copy);
}

Status ReadableMemory::copy_on_device(std::span<const DeviceCopy> copies) const {
  const std::optional<Refusal> fault = device_->copy(copies);
  if (fault) log_warning(fault->reason);
  return fault ? Status::kBackend : Status::kOk;
}

Status ReadableMemory::check(const PlacedObject& object, std::span<const std::byte> bytes) const {
  if (!object.crc32c) return Status::kOk;
  std::vector<std::byte> on_host;
  if (object.is_on_device) {
    on_host.resize(bytes.size());
    const DeviceCopy back{.to = on_host.data(), .from = bytes.data(), .bytes = bytes.size()};
    if (const Status copied = copy_on_device(std::span(&back, 1)); copied != Status::kOk)
      return copied;
    bytes = on_host;
  }
  return crc32c(bytes) == *object.crc32c ? Status::kOk : Status::kCorrupt;
}

}  // namespace tributary::memory
