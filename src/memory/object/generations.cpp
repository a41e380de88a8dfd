#include "memory/object/generations.h"

#include <algorithm>
#include <cstring>

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
                   std::span<const std::byte> segment, std::uint32_t page_bytes,
                   std::span<const PageRun> runs, std::uint64_t generation,
                   std::span<std::byte> into) {
  std::uint64_t room = 0;
  for (const PageRun& run : runs) {
    const std::uint64_t end = std::uint64_t{run.first} + run.count;
    if (end > generations.size() || end * page_bytes > segment.size()) return Status::kBounds;
    room += std::uint64_t{run.count} * page_bytes;
  }
  if (room < into.size()) return Status::kBounds;
  if (!is_current(generations, runs, generation, std::memory_order_acquire)) return Status::kStale;
  for (const PageRun& run : runs) {
    const std::size_t bytes =
        std::min<std::uint64_t>(into.size(), std::uint64_t{run.count} * page_bytes);
    const std::span<const std::byte> from =
        segment.subspan(std::uint64_t{run.first} * page_bytes, bytes);
    std::memcpy(into.data(), from.data(), bytes);  // std::ranges::copy goes byte by byte
    into = into.subspan(bytes);
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  return is_current(generations, runs, generation, std::memory_order_relaxed) ? Status::kOk
                                                                              : Status::kStale;
}

}  // namespace tributary::memory

#if defined(__SANITIZE_THREAD__)
#pragma GCC diagnostic pop
#endif
