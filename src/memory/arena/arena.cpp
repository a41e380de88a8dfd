#include "memory/arena/arena.h"

#include <algorithm>
#include <iterator>

#include "core/error.h"
#include "memory/wire/structures.h"

namespace tributary::memory {

Arena::Arena(std::uint32_t pages) : total_(pages) {
  TRIB_CHECK(pages > 0, .what = "memory: an arena without pages");
  insert({.first = 0, .count = pages});
}

std::optional<std::vector<PageRun>> Arena::allocate(std::uint32_t pages, Urgency urgency) {
  TRIB_CHECK(pages > 0, .what = "memory: an allocation of no pages");
  if (pages > free_) return std::nullopt;
  const std::uint64_t used_after = std::uint64_t{used_pages()} + pages;
  if (urgency == Urgency::kLookAhead && used_after * 10 > std::uint64_t{total_} * 9)
    return std::nullopt;
  std::vector<PageRun> runs;
  if (const auto fit = by_count_.lower_bound({pages, 0}); fit != by_count_.end()) {
    runs.push_back({.first = fit->second, .count = pages});
  } else {
    std::uint32_t missing = pages;
    auto longest = by_count_.end();
    while (missing > 0) {
      // The set orders runs of one length by place: the first of its length is the lowest.
      const std::uint32_t count = std::prev(longest)->first;
      for (auto run = by_count_.lower_bound({count, 0}); run != longest && missing > 0; ++run) {
        runs.push_back({.first = run->second, .count = std::min(count, missing)});
        missing -= runs.back().count;
      }
      longest = by_count_.lower_bound({count, 0});
    }
    if (urgency == Urgency::kLookAhead && runs.size() > kMaxExtents) return std::nullopt;
  }
  for (const PageRun& run : runs) {
    const std::uint32_t whole = by_first_.at(run.first);
    erase({.first = run.first, .count = whole});
    if (whole > run.count) insert({.first = run.first + run.count, .count = whole - run.count});
  }
  return runs;
}

void Arena::free(std::span<const PageRun> runs) {
  for (PageRun run : runs) {
    const auto after = by_first_.lower_bound(run.first);
    const bool is_outside = run.count == 0 || run.count > total_ || run.first > total_ - run.count;
    const bool meets_after = after != by_first_.end() && after->first < run.first + run.count;
    const auto before = after == by_first_.begin() ? by_first_.end() : std::prev(after);
    const bool meets_before =
        before != by_first_.end() && before->first + before->second > run.first;
    TRIB_CHECK(!is_outside && !meets_after && !meets_before,
               .what = "memory: pages were freed that are not in use",
               .found = str("pages ", run.first, " to ", run.first + run.count - 1));
    PageRun merged = run;
    if (after != by_first_.end() && after->first == run.first + run.count)
      merged.count += after->second;
    if (before != by_first_.end() && before->first + before->second == run.first) {
      merged.first = before->first;
      merged.count += before->second;
    }
    if (after != by_first_.end() && after->first == run.first + run.count)
      erase({.first = after->first, .count = after->second});
    if (merged.first != run.first)
      erase({.first = merged.first, .count = by_first_.at(merged.first)});
    insert(merged);
  }
}

void Arena::insert(PageRun run) {
  by_first_.emplace(run.first, run.count);
  by_count_.emplace(run.count, run.first);
  free_ += run.count;
}

void Arena::erase(PageRun run) {
  by_first_.erase(run.first);
  by_count_.erase({run.count, run.first});
  free_ -= run.count;
}

}  // namespace tributary::memory
