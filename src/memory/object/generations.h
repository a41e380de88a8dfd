#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "memory/arena/arena.h"
#include "memory/status.h"

namespace tributary::memory {

/// One generation for each page of a segment, 0 while the page belongs to no sealed object. It lies
/// in memory that readers map too, so that they see whether a handle still holds.
using Generations = std::span<std::atomic<std::uint64_t>>;

/// Says that the pages hold the sealed object of this generation; the bytes were written before.
void store_generation(Generations generations, std::span<const PageRun> runs,
                      std::uint64_t generation);
/// Says that the pages hold no object; they may be written after the return.
void clear_generation(Generations generations, std::span<const PageRun> runs);

/// Bytes of an object that lie together. units: bytes from the begin of the segment, of the object
struct ObjectPiece {
  std::uint64_t in_segment = 0, in_object = 0, bytes = 0;
};
/// Copies pieces, and returns when all of them are there.
using CopyPieces = std::function<Status(std::span<const ObjectPiece>)>;

/// Copies an object out of mapped memory. A lease keeps the owner from writing meanwhile; where the
/// owner took it away after all, the copy is discarded.
///
/// shape:  the object's bytes lie in `runs` of a segment, in order; `generations` [pages]
/// errors: kStale when the generation of a run is another one, before or after the copy; kBounds
///         when the runs leave the segment or do not hold the object; what `copy` ends with
[[nodiscard]] Status copy_object(std::span<const std::atomic<std::uint64_t>> generations,
                                 std::uint32_t page_bytes, std::span<const PageRun> runs,
                                 std::uint64_t generation, std::uint64_t object_bytes,
                                 const CopyPieces& copy);
/// The same out of memory of the host.
///
/// shape:  the object's bytes lie in `runs` of `segment`, in order; `into` has its size
/// errors: kStale when the generation of a run is another one, before or after the copy; kBounds
///         when the runs leave the segment or do not hold the object
[[nodiscard]] Status copy_object(std::span<const std::atomic<std::uint64_t>> generations,
                                 std::span<const std::byte> segment, std::uint32_t page_bytes,
                                 std::span<const PageRun> runs, std::uint64_t generation,
                                 std::span<std::byte> into);

}  // namespace tributary::memory
