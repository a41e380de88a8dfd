#include "memory/wire/structures.h"

#include <string>

#include "memory/address/global_address.h"

namespace tributary::memory {
namespace {

std::size_t size_of(ElementType type) {
  switch (type) {
    case ElementType::kU8:
      return 1;
    case ElementType::kBf16:
    case ElementType::kF16:
      return 2;
    case ElementType::kI32:
    case ElementType::kF32:
      return 4;
    case ElementType::kI64:
      return 8;
  }
  return 0;
}

bool is_own_place(const WireHandle& handle, std::uint64_t gva) {
  const auto address = GlobalAddress::from_bits(gva);
  return address && address.value().process() == handle.process &&
         static_cast<std::uint8_t>(address.value().tier()) == handle.tier;
}

std::optional<std::string> find_broken_rule(const ObjectHandle& handle) {
  const WireHandle& fields = handle.fields;
  if (fields.zero != 0 || fields.key.zero != 0) return "a field named zero is not 0";
  if (fields.generation == 0) return "generation is 0";
  if (fields.dims > kMaxDims) return str("dims = ", fields.dims, ", at most ", kMaxDims);
  if (!is_shape_of(fields)) return str("shape and dtype do not make ", fields.bytes, " B");
  if (!is_own_place(fields, fields.first_gva))
    return "first_gva is not of the process and tier of the handle";
  const bool is_scattered = (fields.flags & kScattered) != 0;
  const bool is_empty = fields.bytes == 0;
  if ((is_scattered || is_empty) != handle.extents.empty() || (is_scattered && is_empty))
    return str("extent_count = ", handle.extents.size(), ", flags = ", fields.flags,
               ", bytes = ", fields.bytes);
  std::uint64_t room = 0;
  for (const Extent& extent : handle.extents) {
    if (!is_own_place(fields, extent.gva)) return "an extent is of another process or tier";
    if (extent.bytes == 0 || __builtin_add_overflow(room, extent.bytes, &room) ||
        extent.bytes > GlobalAddress::kSegmentBytes - (extent.gva % GlobalAddress::kSegmentBytes))
      return str("an extent of ", extent.bytes, " B leaves its segment");
  }
  if (!handle.extents.empty() &&
      (room != fields.bytes || handle.extents.front().gva != fields.first_gva))
    return str("extents of ", room, " B do not hold an object of ", fields.bytes, " B");
  return std::nullopt;
}

}  // namespace

bool is_shape_of(const WireHandle& handle) {
  std::uint64_t bytes = size_of(static_cast<ElementType>(handle.dtype));
  if (bytes == 0) return false;
  if (handle.dims == 0) return true;
  for (std::size_t i = 0; i < handle.dims; ++i)
    if (__builtin_mul_overflow(bytes, std::uint64_t{handle.shape[i]}, &bytes)) return false;
  return bytes == handle.bytes;
}

bool is_on_device(const WireHandle& handle) {
  return (handle.flags & (kOnDevice | kScattered)) == kOnDevice;
}

std::optional<std::uint32_t> checksum_of(const WireHandle& handle) {
  return (handle.flags & kNoCrc) == 0 ? std::optional(handle.crc32c) : std::nullopt;
}

GetRequest whole_object(const WireHandle& handle, std::uint64_t request) {
  return {.request = request,
          .gva = handle.first_gva,
          .generation = handle.generation,
          .length = handle.bytes,
          .epoch = handle.epoch};
}

void put_handle(ByteWriter& to, const ObjectHandle& handle) {
  to.put(handle.fields);
  for (const Extent& extent : handle.extents) to.put(extent);
}

Result<ObjectHandle> get_handle(ByteReader& from) {
  ObjectHandle handle{.fields = from.get<WireHandle>(), .extents = {}};
  const std::size_t extents = handle.fields.extent_count;
  if (extents > kMaxExtents)
    return Refusal{"handle",
                   str("memory: handle: extent_count = ", extents, ", at most ", kMaxExtents)};
  for (std::size_t i = 0; i < extents && !from.failed(); ++i)
    handle.extents.push_back(from.get<Extent>());
  if (from.failed()) return Refusal{"handle", "memory: a handle ends too early"};
  if (const auto broken = find_broken_rule(handle))
    return Refusal{"handle", str("memory: handle: ", *broken)};
  return handle;
}

}  // namespace tributary::memory
