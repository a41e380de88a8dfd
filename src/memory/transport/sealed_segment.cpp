#include "memory/transport/sealed_segment.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/machine/memory_limits.h"

namespace tributary::memory {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
constexpr std::uint32_t kSmallestPage = 4096;

static_assert(std::atomic<std::uint64_t>::is_always_lock_free,
              "processes share the generations without a lock");

[[noreturn]] void raise_segment(const char* call, SegmentLayout layout, const char* fix) {
  TRIB_RAISE(Fault::kResource, .what = "memory: segment cannot be made",
             .where = str(layout.mapped_bytes(), " bytes"),
             .found = str(call, ": ", std::strerror(errno)), .fix = fix);
}

/// Refuses before any page is taken: the system hands out memory that is not there, and then kills
/// processes to get it.
void require_memory(SegmentLayout layout) {
  const Bytes needed{static_cast<std::int64_t>(layout.mapped_bytes())};
  for (const MemoryLimit& limit : list_memory_limits())
    if (limit.left < needed)
      TRIB_RAISE(Fault::kResource, .what = "memory: segment is larger than the memory that is left",
                 .where = limit.name, .found = str(describe_bytes(limit.left), " left"),
                 .expected = describe_bytes(needed), .fix = "make the pool smaller");
}

Descriptor make_memory(SegmentLayout layout) {
  require_memory(layout);
  Descriptor memory(memfd_create("tributary pool", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) raise_segment("memfd_create", layout, "use Linux 5.1 or later");
  const auto size = static_cast<off_t>(layout.mapped_bytes());
  if (ftruncate(memory.get(), size) != 0)
    raise_segment("ftruncate", layout, "make the pool smaller, or raise `ulimit -f`");
  // Taken now: memory that runs short later would show as a SIGBUS.
  int failure = 0;
  do failure = posix_fallocate(memory.get(), 0, size);
  while (failure == EINTR);
  errno = failure;
  if (failure != 0) raise_segment("fallocate", layout, "make the pool smaller");
  return memory;
}

SegmentMapping map_memory(int descriptor, SegmentLayout layout, int protection) {
  void* begin = mmap(nullptr, layout.mapped_bytes(), protection, MAP_SHARED, descriptor, 0);
  if (begin == MAP_FAILED) return {};
  madvise(begin, layout.mapped_bytes(), MADV_DONTDUMP);
  return {static_cast<std::byte*>(begin), layout};
}

std::atomic<std::uint64_t>* table_of(const SegmentMapping& mapping) {
  return std::launder(reinterpret_cast<std::atomic<std::uint64_t>*>(mapping.begin));
}

}  // namespace

SegmentMapping::SegmentMapping(SegmentMapping&& other) noexcept
    : begin(std::exchange(other.begin, nullptr)), layout(other.layout) {}

SegmentMapping& SegmentMapping::operator=(SegmentMapping&& other) noexcept {
  std::swap(begin, other.begin);
  std::swap(layout, other.layout);
  return *this;
}

SegmentMapping::~SegmentMapping() {
  if (begin != nullptr) munmap(begin, layout.mapped_bytes());
}

SealedSegment::SealedSegment(SegmentLayout layout) {
  TRIB_REQUIRE(layout.bytes > 0 && layout.page_bytes > 0 &&
                   layout.page_bytes % kSmallestPage == 0 && layout.bytes % layout.page_bytes == 0,
               .what = "memory: segment is not made of whole pages",
               .found = str(layout.bytes, " bytes in pages of ", layout.page_bytes),
               .expected = "at least one page, each a multiple of 4096 bytes");
  descriptor_ = make_memory(layout);
  mapping_ = map_memory(descriptor_.get(), layout, PROT_READ | PROT_WRITE);
  if (mapping_.begin == nullptr) raise_segment("mmap", layout, "make the pool smaller");
  // A child of this process must not keep the one mapping that writes.
  madvise(mapping_.begin, layout.mapped_bytes(), MADV_DONTFORK);
  if (fcntl(descriptor_.get(), F_ADD_SEALS, kSeals) != 0)
    raise_segment("F_ADD_SEALS", layout, "use Linux 5.1 or later");
}

std::span<std::byte> SealedSegment::bytes() const {
  return {mapping_.begin + mapping_.layout.control_bytes(), mapping_.layout.bytes};
}

Generations SealedSegment::generations() const {
  return {table_of(mapping_), mapping_.layout.pages()};
}

Result<MappedSegment> MappedSegment::map(const Descriptor& descriptor, SegmentLayout layout) {
  const int seals = fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    return Refusal{"seals", str("memory: segment of another process is not sealed: seals = ", seals,
                                ", expected ", kSeals, " (shrink, grow, future write, seal)")};
  struct stat status {};
  if (layout.page_bytes == 0 || layout.bytes % layout.page_bytes != 0 ||
      fstat(descriptor.get(), &status) != 0 ||
      static_cast<std::uint64_t>(status.st_size) != layout.mapped_bytes())
    return Refusal{
        "size", str("memory: segment of another process has ", status.st_size,
                    " bytes, its row asks for ", layout.bytes, " in pages of ", layout.page_bytes)};
  SegmentMapping mapping = map_memory(descriptor.get(), layout, PROT_READ);
  if (mapping.begin == nullptr)
    return Refusal{"map", str("memory: segment of another process cannot be mapped: ",
                              layout.mapped_bytes(), " bytes, ", std::strerror(errno))};
  return MappedSegment(std::move(mapping));
}

std::span<const std::byte> MappedSegment::bytes() const {
  return {mapping_.begin + mapping_.layout.control_bytes(), mapping_.layout.bytes};
}

std::span<const std::atomic<std::uint64_t>> MappedSegment::generations() const {
  return {table_of(mapping_), mapping_.layout.pages()};
}

}  // namespace tributary::memory
