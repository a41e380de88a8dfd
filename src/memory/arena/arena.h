#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace tributary::memory {

/// Consecutive pages.
struct PageRun {
  std::uint32_t first = 0, count = 0;

  friend bool operator==(const PageRun&, const PageRun&) = default;
};

/// Whose pages these are: step `low` is the oldest step that is planned and not committed.
enum class Urgency { kLow, kLookAhead };

/// Hands out the pages of one segment: one run if possible, otherwise few long ones.
///
/// Look-ahead leaves a tenth of the pages free and waits rather than take more than eight runs;
/// step `low` takes whatever is free, so that it can always be placed. Used by one thread.
///
/// units: pages, counted from 0
/// cost:  O(log runs) an operation
class Arena {
 public:
  /// errors: Fault::kBug when there are no pages
  explicit Arena(std::uint32_t pages);

  /// The runs in the order in which the object's bytes lie in them; null when it must wait. Above
  /// eight runs the object is scattered: a handle cannot name its pages.
  ///
  /// errors: Fault::kBug when `pages` is 0
  [[nodiscard]] std::optional<std::vector<PageRun>> allocate(std::uint32_t pages, Urgency urgency);
  /// Gives back runs that allocate() returned.
  ///
  /// errors: Fault::kBug when a page of them is free already or outside
  void free(std::span<const PageRun> runs);

  [[nodiscard]] std::uint32_t total_pages() const { return total_; }
  [[nodiscard]] std::uint32_t free_pages() const { return free_; }
  [[nodiscard]] std::uint32_t used_pages() const { return total_ - free_; }
  /// Maximal runs of free pages by their first page.
  [[nodiscard]] const std::map<std::uint32_t, std::uint32_t>& free_runs() const {
    return by_first_;
  }

 private:
  void insert(PageRun run);
  void erase(PageRun run);

  std::uint32_t total_;
  std::uint32_t free_ = 0;
  std::map<std::uint32_t, std::uint32_t> by_first_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> by_count_;  // (count, first)
};

}  // namespace tributary::memory
