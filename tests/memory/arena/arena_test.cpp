#include "memory/arena/arena.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "memory/wire/structures.h"
#include "tests/memory/full_size.h"

namespace tributary::memory {
namespace {

/// The rules of the arena, by looking at every page.
class PageByPage {
 public:
  explicit PageByPage(std::uint32_t pages) : used_(pages) {}

  [[nodiscard]] std::vector<PageRun> free_runs() const {
    std::vector<PageRun> runs;
    for (std::uint32_t page = 0; page < used_.size(); ++page) {
      if (used_[page]) continue;
      if (runs.empty() || runs.back().first + runs.back().count != page)
        runs.push_back({.first = page, .count = 0});
      ++runs.back().count;
    }
    return runs;
  }
  std::optional<std::vector<PageRun>> allocate(std::uint32_t pages, Urgency urgency) {
    const auto free = static_cast<std::uint32_t>(std::ranges::count(used_, false));
    const auto total = static_cast<double>(used_.size());
    if (pages > free) return std::nullopt;
    if (urgency == Urgency::kLookAhead && total - free + pages > 0.9 * total + 1e-9)
      return std::nullopt;
    std::vector<PageRun> runs = free_runs();
    std::vector<PageRun> taken;
    const auto fits = [&](const PageRun& run) { return run.count >= pages; };
    if (std::ranges::any_of(runs, fits)) {
      std::erase_if(runs, [&](const PageRun& run) { return !fits(run); });
      const PageRun best = *std::ranges::min_element(runs, {}, &PageRun::count);  // the first
      taken = {{.first = best.first, .count = pages}};
    } else {
      std::ranges::stable_sort(runs, std::greater(), &PageRun::count);
      for (std::uint32_t left = pages, i = 0; left > 0; left -= taken.back().count, ++i)
        taken.push_back({.first = runs[i].first, .count = std::min(left, runs[i].count)});
      if (urgency == Urgency::kLookAhead && taken.size() > 8) return std::nullopt;
    }
    mark(taken, true);
    return taken;
  }
  void mark(std::span<const PageRun> runs, bool used) {
    for (const PageRun& run : runs) std::fill_n(used_.begin() + run.first, run.count, used);
  }

 private:
  std::vector<bool> used_;
};

std::vector<PageRun> free_runs(const Arena& arena) {
  std::vector<PageRun> runs;
  for (const auto& [first, count] : arena.free_runs())
    runs.push_back({.first = first, .count = count});
  return runs;
}

/// Frees what is live, and takes every other page, so that no two free ones lie beside each other.
std::vector<std::vector<PageRun>> take_every_other_page(
    Arena& arena, PageByPage& model, const std::vector<std::vector<PageRun>>& live) {
  for (const std::vector<PageRun>& runs : live) {
    arena.free(runs);
    model.mark(runs, false);
  }
  std::vector<std::vector<PageRun>> taken;
  while (const auto runs = arena.allocate(1, Urgency::kLow)) taken.push_back(*runs);
  std::vector<std::vector<PageRun>> kept;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    if (i % 2 == 0) {
      arena.free(taken[i]);
    } else {
      model.mark(taken[i], true);
      kept.push_back(taken[i]);
    }
  }
  return kept;
}

TEST(Arena, DoesWhatTheRulesSayPageByPage) {  // I1, I2
  constexpr int kRounds = 20;
  int scattered = 0, waited = 0;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    RandomStream draw(round, "arena_test");
    const auto pages = static_cast<std::uint32_t>(draw.between(1, 160));
    const std::int64_t largest = draw.between(1, std::max<std::int64_t>(1, pages / 4));
    Arena arena(pages);
    PageByPage model(pages);
    std::vector<std::vector<PageRun>> live;
    for (int i = 0; i < cases(60'000, 1'000'000) / kRounds; ++i) {
      if (i % 100 == 0) live = take_every_other_page(arena, model, live);
      if (live.empty() || draw.below(100) < 55) {
        const std::int64_t max = draw.below(8) == 0 ? largest : 1;
        const auto wanted = static_cast<std::uint32_t>(draw.between(1, max));
        const Urgency urgency = draw.below(2) == 0 ? Urgency::kLow : Urgency::kLookAhead;
        const auto taken = arena.allocate(wanted, urgency);
        ASSERT_EQ(taken, model.allocate(wanted, urgency)) << "round " << round << ", step " << i;
        waited += taken ? 0 : 1;
        scattered += taken && taken->size() > kMaxExtents ? 1 : 0;
        if (taken) live.push_back(*taken);
      } else {
        std::swap(draw.pick(std::span(live)), live.back());
        arena.free(live.back());
        model.mark(live.back(), false);
        live.pop_back();
      }
      ASSERT_EQ(free_runs(arena), model.free_runs());
      ASSERT_EQ(arena.used_pages() + arena.free_pages(), pages);
    }
    for (const std::vector<PageRun>& runs : live) arena.free(runs);
    ASSERT_EQ(free_runs(arena), (std::vector<PageRun>{{.first = 0, .count = pages}}));
  }
  EXPECT_GT(scattered, 50);  // otherwise the cases would say little
  EXPECT_GT(waited, 100);
}

TEST(Arena, RefusesToFreeWhatIsFree) {
  Arena arena(10);
  const std::vector<PageRun> runs = arena.allocate(4, Urgency::kLow).value();
  const std::vector<std::vector<PageRun>> wrong{
      {{.first = 4, .count = 1}}, {{.first = 3, .count = 2}},           {{.first = 10, .count = 1}},
      {{.first = 0, .count = 0}}, {{.first = 0, .count = 0xffffffffU}}, {{.first = 9, .count = 2}}};
  for (const std::vector<PageRun>& one : wrong) EXPECT_THROW(arena.free(one), Error);
  EXPECT_EQ(arena.free_pages(), 6);
  arena.free(runs);
  EXPECT_THROW(arena.free(runs), Error);
  EXPECT_EQ(arena.free_pages(), 10);
}

}  // namespace
}  // namespace tributary::memory
