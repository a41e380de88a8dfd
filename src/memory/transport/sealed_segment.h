#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/handle.h"
#include "core/result.h"
#include "memory/object/generations.h"

namespace tributary::memory {

/// How the memory of a segment is laid out: one generation per page, then the pages.
struct SegmentLayout {
  std::uint64_t bytes = 0;  // of all pages together, a multiple of page_bytes
  std::uint32_t page_bytes = 0;

  [[nodiscard]] std::uint64_t pages() const { return bytes / page_bytes; }
  /// Bytes before the first page, whole pages themselves.
  [[nodiscard]] std::uint64_t control_bytes() const {
    const std::uint64_t table = pages() * sizeof(std::uint64_t);
    return (table + page_bytes - 1) / page_bytes * page_bytes;
  }
  [[nodiscard]] std::uint64_t mapped_bytes() const { return control_bytes() + bytes; }
  friend bool operator==(const SegmentLayout&, const SegmentLayout&) = default;
};

/// One mapping of a segment.
struct SegmentMapping {
  SegmentMapping() = default;
  SegmentMapping(std::byte* start, SegmentLayout laid_out) : begin(start), layout(laid_out) {}
  SegmentMapping(SegmentMapping&& other) noexcept;
  SegmentMapping& operator=(SegmentMapping&& other) noexcept;
  ~SegmentMapping();

  std::byte* begin = nullptr;
  SegmentLayout layout;
};

/// The memory that a process shares from: it alone writes, others map it read-only. It has no name,
/// so nothing is left of it when the last process that maps it has ended, however it ended.
class SealedSegment {
 public:
  /// Takes all of the memory at once, so that a machine that has too little says so here.
  ///
  /// errors: Fault::kInput when the layout is empty, no multiple of the page, or the page is no
  ///         multiple of 4 KiB; Fault::kResource when memory is short, or the kernel does not know
  ///         the seals (before Linux 5.1)
  explicit SealedSegment(SegmentLayout layout);

  [[nodiscard]] SegmentLayout layout() const { return mapping_.layout; }
  [[nodiscard]] std::span<std::byte> bytes() const;
  [[nodiscard]] Generations generations() const;
  /// What readers are sent; open as long as this object lives.
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

 private:
  Descriptor descriptor_;
  SegmentMapping mapping_;
};

/// Another process's segment, as its readers see it.
class MappedSegment {
 public:
  /// Maps what a descriptor holds. Refuses one whose seals would let anybody shrink it under the
  /// reader or write to it (`seals`), whose size is not that of the layout (`size`), or that cannot
  /// be mapped (`map`).
  [[nodiscard]] static Result<MappedSegment> map(const Descriptor& descriptor,
                                                 SegmentLayout layout);

  [[nodiscard]] SegmentLayout layout() const { return mapping_.layout; }
  [[nodiscard]] std::span<const std::byte> bytes() const;
  [[nodiscard]] std::span<const std::atomic<std::uint64_t>> generations() const;

 private:
  explicit MappedSegment(SegmentMapping mapping) : mapping_(std::move(mapping)) {}
  SegmentMapping mapping_;
};

}  // namespace tributary::memory
