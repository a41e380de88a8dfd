#include "memory/object/generations.h"

#include <algorithm>
#include <cstring>
#include <vector>

// GCC warns that ThreadSanitizer does not know fences. Here it loses nothing: a mapped reader sees
// the memory at other addresses than its owner, which ThreadSanitizer takes for other memory.
#if defined(__SANITIZE_THREAD__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif

namespace tributary::memory {
namespace {

bool is_current(std::span<const std::atomic<std::uint64_t>> generations,
                std::span<const PageRun> runs, std::uint64_t generation, std::memory_order order) {
  return std::ranges::all_of(
      runs, [&](PageRun run) { return generations[run.first].load(order) == generation; });
}

}  // namespace

void store_generation(Generations generations, std::span<const PageRun> runs,
                      std::uint64_t generation) {
  for (const PageRun& run : runs)
    for (std::atomic<std::uint64_t>& page : generations.subspan(run.first, run.count))
      page.store(generation, std::memory_order_release);
}

void clear_generation(Generations generations, std::span<const PageRun> runs) {
  for (const PageRun& run : runs)
    for (std::atomic<std::uint64_t>& page : generations.subspan(run.first, run.count))
      page.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // before any later write to the pages
}

Status copy_object(std::span<const std::atomic<std::uint64_t>> generations,
                   std::uint32_t page_bytes, std::span<const PageRun> runs,
                   std::uint64_t generation, std::uint64_t object_bytes, const CopyPieces& copy) {
  std::vector<ObjectPiece> pieces;
  std::uint64_t placed = 0;
  for (const PageRun& run : runs) {
    if (std::uint64_t{run.first} + run.count > generations.size()) return Status::kBounds;
    const std::uint64_t bytes =
        std::min(object_bytes - placed, std::uint64_t{run.count} * page_bytes);
    pieces.push_back({std::uint64_t{run.first} * page_bytes, placed, bytes});
    placed += bytes;
  }
  if (placed < object_bytes) return Status::kBounds;
  if (!is_current(generations, runs, generation, std::memory_order_acquire)) return Status::kStale;
  if (const Status copied = copy(pieces); copied != Status::kOk) return copied;
  std::atomic_thread_fence(std::memory_order_acquire);
  return is_current(generations, runs, generation, std::memory_order_relaxed) ? Status::kOk
                                                                              : Status::kStale;
}

Status copy_object(std::span<const std::atomic<std::uint64_t>> generations,
                   std::span<const std::byte> segment, std::uint32_t page_bytes,
                   std::span<const PageRun> runs, std::uint64_t generation,
                   std::span<std::byte> into) {
  if (segment.size() / page_bytes < generations.size()) return Status::kBounds;
  return copy_object(generations, page_bytes, runs, generation, into.size(),
                     [&](std::span<const ObjectPiece> pieces) {
                       for (const ObjectPiece& piece : pieces)  // std::ranges::copy goes bytewise
                         std::memcpy(into.data() + piece.in_object,
                                     segment.data() + piece.in_segment, piece.bytes);
                       return Status::kOk;
                     });
}

}  // namespace tributary::memory

#if defined(__SANITIZE_THREAD__)
#pragma GCC diagnostic pop
#endif
