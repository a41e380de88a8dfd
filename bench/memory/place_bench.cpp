// What it costs to find an object's memory. Pages: objects of about 10 MB come and go in 4 GiB,
// with `live` per cent of the pages in use, and are given back in an order that is shuffled within
// 48; `late` per cent of them 300 objects later. Look-ahead would have to wait for
// `failed_permille` of them, as no eight runs of free pages hold them. Addresses: from the bits to
// the row of the page table. Targets: allocate and free 1 us; at 90 % live at most 1 permille
// failed, 94 % in one run and 8 runs at most; an address 10 ns.

#include <algorithm>
#include <benchmark/benchmark.h>
#include <cmath>
#include <deque>
#include <vector>

#include "core/random.h"
#include "memory/address/page_table.h"
#include "memory/arena/arena.h"

namespace tributary::memory {
namespace {

constexpr std::uint32_t kPageBytes = 256 << 10;
constexpr std::uint32_t kPages = (std::uint64_t{4} << 30) / kPageBytes;
constexpr std::size_t kShuffled = 48;
constexpr std::uint64_t kLateBy = 300;
constexpr std::size_t kMaxRuns = 8;

/// Pages of objects: log-normal around 1,200 tokens of 4,096 values of two bytes.
std::vector<std::uint32_t> draw_sizes() {
  constexpr double kMedianBytes = 1200.0 * 4096 * 2;
  constexpr double kSpread = 0.6;
  RandomStream draw(1, "sizes");
  std::vector<std::uint32_t> sizes(1 << 14);
  for (std::uint32_t& pages : sizes)
    pages = static_cast<std::uint32_t>(
        std::clamp(std::ceil(kMedianBytes * std::exp(kSpread * draw.normal()) / kPageBytes), 1.0,
                   kPages / 4.0));
  return sizes;
}

struct Live {
  std::vector<PageRun> runs;
  std::uint64_t free_from = 0;  // the object with which it may be given back
};

void allocate_and_free(benchmark::State& state) {
  const auto max_used = static_cast<std::uint32_t>(kPages * state.range(0) / 100);
  const auto late = static_cast<std::uint64_t>(state.range(1));
  const std::vector<std::uint32_t> sizes = draw_sizes();
  RandomStream draw(1, "order");
  Arena arena(kPages);
  std::deque<Live> live;
  std::uint64_t made = 0, failed = 0, in_one_run = 0;
  std::size_t max_runs = 0;
  const auto give_back = [&] {
    for (;;) {
      const auto place =
          static_cast<std::ptrdiff_t>(draw.below(std::min<std::size_t>(live.size(), kShuffled)));
      const auto found = std::find_if(live.begin() + place, live.end(),
                                      [made](const Live& each) { return each.free_from <= made; });
      if (found == live.end()) continue;
      arena.free(found->runs);
      live.erase(found);
      return;
    }
  };
  for (auto _ : state) {
    const std::uint32_t pages = sizes[made % sizes.size()];
    while (arena.used_pages() + pages > max_used) give_back();
    std::vector<PageRun> runs = *arena.allocate(pages, Urgency::kLow);
    failed += runs.size() > kMaxRuns ? 1 : 0;
    in_one_run += runs.size() == 1 ? 1 : 0;
    max_runs = std::max(max_runs, runs.size());
    live.push_back(
        {.runs = std::move(runs), .free_from = draw.below(100) < late ? made + kLateBy : made});
    ++made;
  }
  const auto of_all = [made](std::uint64_t count) {
    return static_cast<double>(count) / static_cast<double>(made);
  };
  state.counters["failed_permille"] = 1e3 * of_all(failed);
  state.counters["one_run_percent"] = 1e2 * of_all(in_one_run);
  state.counters["max_runs"] = static_cast<double>(max_runs);
}
BENCHMARK(allocate_and_free)
    ->ArgNames({"live", "late"})
    ->ArgsProduct({{80, 90, 95}, {0, 1}})
    ->Iterations(300'000);

void find_address(benchmark::State& state) {
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 30;
  const auto processes = static_cast<std::uint16_t>(state.range(0));
  std::vector<SegmentRow> rows;
  for (std::uint16_t process = 0; process < processes; ++process)
    rows.push_back({.process = process, .length = kBytes, .page_bytes = kPageBytes, .epoch = 1});
  const PageTable table = PageTable::make(std::move(rows)).value();
  RandomStream draw(1, "addresses");
  std::vector<std::uint64_t> addresses(1 << 12);
  for (std::uint64_t& bits : addresses)
    bits = GlobalAddress::make(Tier::kDram, static_cast<std::uint16_t>(draw.below(processes)),
                               draw.below(kBytes))
               .value()
               .bits();
  std::size_t next = 0;
  for (auto _ : state) {
    const std::uint64_t bits = addresses[next++ % addresses.size()];
    benchmark::DoNotOptimize(table.find(GlobalAddress::from_bits(bits).value()));
  }
}
BENCHMARK(find_address)->ArgName("processes")->Arg(4)->Arg(64)->Arg(255);

}  // namespace
}  // namespace tributary::memory
