#include "memory/transport/sealed_segment.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/error.h"

namespace tributary::memory {
namespace {

using testing::HasSubstr;

constexpr SegmentLayout kLayout{.bytes = 4 * 65536, .page_bytes = 65536};

Descriptor copy_of(int descriptor) { return Descriptor(dup(descriptor)); }

TEST(SealedSegment, ShowsReadersWhatTheOwnerWritesLater) {
  const SealedSegment segment(kLayout);
  const auto mapped = MappedSegment::map(copy_of(segment.descriptor()), kLayout);
  ASSERT_TRUE(mapped.has_value()) << mapped.refusal().reason;
  segment.bytes()[kLayout.bytes - 1] = std::byte{9};
  segment.generations()[3].store(5);
  EXPECT_EQ(mapped.value().bytes()[kLayout.bytes - 1], std::byte{9});
  EXPECT_EQ(mapped.value().generations()[3].load(), 5);
  EXPECT_EQ(mapped.value().generations().size(), 4);
}

TEST(SealedSegment, CannotBeWrittenByAReader) {  // I21
  const SealedSegment segment(kLayout);
  const Descriptor other = copy_of(segment.descriptor());
  const std::size_t size = kLayout.mapped_bytes();
  EXPECT_EQ(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, other.get(), 0), MAP_FAILED);
  EXPECT_EQ(errno, EPERM);
  void* readable = mmap(nullptr, size, PROT_READ, MAP_SHARED, other.get(), 0);
  ASSERT_NE(readable, MAP_FAILED);
  EXPECT_EQ(mprotect(readable, size, PROT_READ | PROT_WRITE), -1);
  EXPECT_EQ(errno, EACCES);
  munmap(readable, size);
  EXPECT_EQ(pwrite(other.get(), "x", 1, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(ftruncate(other.get(), 4096), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(fcntl(other.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST(SealedSegment, RefusesMemoryThatItsOwnerCouldShrink) {
  const Descriptor plain(memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(plain.get(), static_cast<off_t>(kLayout.mapped_bytes())), 0);
  const auto mapped = MappedSegment::map(plain, kLayout);
  ASSERT_FALSE(mapped.has_value());
  EXPECT_EQ(mapped.refusal().code, "seals");
  EXPECT_THAT(mapped.refusal().reason, HasSubstr("seals = 0, expected 23"));
  EXPECT_EQ(MappedSegment::map(Descriptor(), kLayout).refusal().code, "seals");
}

TEST(SealedSegment, RefusesMemoryOfAnotherSizeThanItsRow) {
  const SealedSegment segment(kLayout);
  const auto mapped =
      MappedSegment::map(copy_of(segment.descriptor()), {.bytes = 5 * 65536, .page_bytes = 65536});
  ASSERT_FALSE(mapped.has_value());
  EXPECT_EQ(mapped.refusal().code, "size");
}

TEST(SealedSegment, AsksForWholePages) {
  EXPECT_THAT([] { const SealedSegment segment({.bytes = 100, .page_bytes = 65536}); },
              testing::ThrowsMessage<Error>(HasSubstr("found: 100 bytes in pages of 65536")));
}

/// Lets no file of this process, and no memory of a segment, grow beyond a GiB meanwhile: a segment
/// that did take what this test asks for would bring the machine down.
class SmallFiles {
 public:
  SmallFiles() {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{.rlim_cur = 1 << 30, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    std::signal(SIGXFSZ, SIG_IGN);
  }
  ~SmallFiles() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST(SealedSegment, TakesNothingWhenMemoryIsShort) {
  const SmallFiles no_accidents;
  EXPECT_THAT(
      [] { const SealedSegment segment({.bytes = std::uint64_t{1} << 44, .page_bytes = 65536}); },
      testing::ThrowsMessage<Error>(
          HasSubstr("memory: segment is larger than the memory that is left")));
}

}  // namespace
}  // namespace tributary::memory
