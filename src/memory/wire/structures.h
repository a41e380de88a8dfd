#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/result.h"
#include "memory/bytes.h"

namespace tributary::memory {

// The structures of the wire: little endian, fixed size, no pointers. A field named `zero` must be
// 0 on receipt.

inline constexpr std::size_t kMaxExtents = 8;
inline constexpr std::size_t kMaxDims = 4;
inline constexpr std::uint64_t kMaxPayloadBytes = std::uint64_t{1} << 30;  // of one GET

/// What a process does in the pool; travels in Hello.
enum class Role : std::uint16_t { kProducer = 1, kConsumer = 2, kController = 3 };

/// The type of an object's elements.
enum class ElementType : std::uint8_t {
  kU8 = 1,
  kI32 = 2,
  kI64 = 3,
  kBf16 = 4,
  kF16 = 5,
  kF32 = 6
};

/// The name of an object. `encoder_version` is 0 for frozen encoders, otherwise the optimizer step
/// whose weights produced the bytes.
struct Key {
  std::uint64_t sample = 0, encoder_version = 0;
  std::uint32_t dataset_epoch = 0;
  std::uint16_t part = 0, zero = 0;

  friend auto operator<=>(const Key&, const Key&) = default;
};
static_assert(WireType<Key> && sizeof(Key) == 24);

/// Consecutive pages. `gva` is GlobalAddress::bits().
struct Extent {
  std::uint64_t gva = 0, bytes = 0;

  friend bool operator==(const Extent&, const Extent&) = default;
};
static_assert(WireType<Extent> && sizeof(Extent) == 16);

inline constexpr std::uint16_t kNoCrc = 1;      // generation checks alone protect the bytes
inline constexpr std::uint16_t kScattered = 2;  // no extents: only the owner can resolve the pages
inline constexpr std::uint16_t kOnDevice =
    4;  // the same bytes lie in the pages of the owner's device

/// The fixed part of a handle; its extents follow on the wire. An object that cannot be made has a
/// handle without bytes and extents, so that nobody waits for it. `tier`, `dtype` hold Tier and
/// ElementType; `crc32c` covers the object's bytes in order, without padding of pages.
struct WireHandle {
  Key key = {};
  std::uint64_t first_gva = 0, generation = 0, bytes = 0;
  std::uint32_t tokens = 0, crc32c = 0, epoch = 0;
  std::uint16_t process = 0;
  std::uint8_t tier = 0, dtype = 0;
  std::uint32_t shape[kMaxDims] = {};
  std::uint8_t dims = 0, extent_count = 0;
  std::uint16_t flags = 0;
  std::uint32_t zero = 0;

  friend bool operator==(const WireHandle&, const WireHandle&) = default;
};
static_assert(WireType<WireHandle> && sizeof(WireHandle) == 88);
/// Whether shape and dtype make as many bytes as the object has; without dims it is plain bytes.
[[nodiscard]] bool is_shape_of(const WireHandle& handle);
/// Whether readers with a device may copy the object from the owner's: it has extents there.
[[nodiscard]] bool is_on_device(const WireHandle& handle);
/// The checksum that the object's bytes must have; none with kNoCrc.
[[nodiscard]] std::optional<std::uint32_t> checksum_of(const WireHandle& handle);

/// Names one sealed object and says where its bytes are.
struct ObjectHandle {
  WireHandle fields = {};
  std::vector<Extent> extents = {};  // fields.extent_count of them; none with kScattered

  friend bool operator==(const ObjectHandle&, const ObjectHandle&) = default;
};
void put_handle(ByteWriter& to, const ObjectHandle& handle);
/// Reads a handle and checks that its fields agree: tier, process and bytes of extents, dims.
///
/// errors: Refusal that names the field
[[nodiscard]] Result<ObjectHandle> get_handle(ByteReader& from);

/// Asks the owner for `length` bytes from `offset` on of the object that starts at `gva`.
struct GetRequest {
  std::uint64_t request = 0, gva = 0, generation = 0, offset = 0, length = 0;
  std::uint32_t epoch = 0, flags = 0;

  friend bool operator==(const GetRequest&, const GetRequest&) = default;
};
static_assert(WireType<GetRequest> && sizeof(GetRequest) == 48);
/// Asks for all bytes of an object.
[[nodiscard]] GetRequest whole_object(const WireHandle& handle, std::uint64_t request);

/// Answers a GetRequest; `payload_bytes` raw bytes follow its frame. `crc32c` covers them.
struct GetReply {
  std::uint64_t request = 0, payload_bytes = 0;
  std::uint32_t status = 0, crc32c = 0;

  friend bool operator==(const GetReply&, const GetReply&) = default;
};
static_assert(WireType<GetReply> && sizeof(GetReply) == 24);

struct LeaseEntry {
  std::uint64_t gva = 0, generation = 0;

  friend auto operator<=>(const LeaseEntry&, const LeaseEntry&) = default;
};
static_assert(WireType<LeaseEntry> && sizeof(LeaseEntry) == 16);

/// Totals, never differences, so that a repeated or late one grants nothing twice.
struct Credit {
  std::uint64_t granted_pages = 0, sequence = 0;
  std::uint32_t epoch = 0, zero = 0;

  friend bool operator==(const Credit&, const Credit&) = default;
};
static_assert(WireType<Credit> && sizeof(Credit) == 24);

/// A member lives: `step` counts its finished steps, `progress` changes while something goes on. A
/// producer says for how long it has made objects in all, and had no room for any, in ms.
struct Heartbeat {
  std::uint64_t step = 0, progress = 0;
  std::uint32_t process = 0, epoch = 0, busy_ms = 0, blocked_ms = 0;
  std::uint32_t leaves = 0, zero = 0;  // 1: a producer that takes no more work

  friend bool operator==(const Heartbeat&, const Heartbeat&) = default;
};
static_assert(WireType<Heartbeat> && sizeof(Heartbeat) == 40);

/// Opens a connection; `role` holds Role, `resumes` 1 where an earlier connection broke.
struct Hello {
  std::uint32_t magic = 0;
  std::uint16_t version = 0, role = 0;
  std::uint8_t job[16] = {};
  std::uint32_t rank = 0, world = 0;
  std::uint16_t process = 0;
  std::uint8_t resumes = 0, zero = 0;
  std::uint32_t incarnation = 0;
  std::uint8_t nonce[32] = {};

  friend bool operator==(const Hello&, const Hello&) = default;
};
static_assert(WireType<Hello> && sizeof(Hello) == 72);

/// Answers a Hello: the server's own fields and its proof that it holds the job key.
struct Challenge {
  Hello server;
  std::uint8_t mac[32] = {};

  friend bool operator==(const Challenge&, const Challenge&) = default;
};
static_assert(WireType<Challenge> && sizeof(Challenge) == 104);

/// Ends the handshake: the client's proof.
struct Confirm {
  std::uint8_t mac[32] = {};

  friend bool operator==(const Confirm&, const Confirm&) = default;
};
static_assert(WireType<Confirm> && sizeof(Confirm) == 32);

}  // namespace tributary::memory
