#include "schedule/pack.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "schedule/best_fit.h"
#include "schedule/pack_online.h"

namespace tributary::schedule {
namespace {

PackedBins keep_apart(std::span<const Tokens> lengths, Tokens capacity) {
  check_lengths(lengths, capacity);
  PackedBins packed = {.first = std::vector<std::int32_t>(lengths.size() + 1),
                       .items = std::vector<std::int32_t>(lengths.size())};
  std::iota(packed.first.begin(), packed.first.end(), 0);
  std::iota(packed.items.begin(), packed.items.end(), 0);
  return packed;
}

/// Appends the bins of a window whose items begin at `offset` of the list.
void append(PackedBins& all, const PackedBins& window, std::int32_t offset) {
  for (std::int64_t bin = 0; bin < window.bins(); ++bin) {
    for (const std::int32_t item : window.bin(bin)) all.items.push_back(offset + item);
    all.first.push_back(static_cast<std::int32_t>(all.items.size()));
  }
}

/// The first item of a bin opened it, so bins sorted by it are in order of opening.
PackedBins pack_stream(std::span<const Tokens> lengths, Tokens capacity, std::int64_t window) {
  OnlinePacker packer({.capacity = capacity, .max_waiting = window});
  std::vector<ClosedBin> done;
  const auto keep = [&done](std::vector<ClosedBin> closed) {
    std::move(closed.begin(), closed.end(), std::back_inserter(done));
  };
  for (std::size_t item = 0; item < lengths.size(); ++item) {
    keep(packer.add(static_cast<std::int64_t>(item), lengths[item]));
  }
  keep(packer.flush());
  std::ranges::sort(done, {}, [](const ClosedBin& bin) { return bin.samples.front(); });
  PackedBins packed = {.first = {0}, .items = {}};
  for (const ClosedBin& bin : done) {
    packed.items.insert(packed.items.end(), bin.samples.begin(), bin.samples.end());
    packed.first.push_back(static_cast<std::int32_t>(packed.items.size()));
  }
  return packed;
}

}  // namespace

PackedBins pack(config::Packing rule, std::span<const Tokens> lengths, Tokens capacity) {
  switch (rule) {
    case config::Packing::kNone:
      return keep_apart(lengths, capacity);
    case config::Packing::kOnlineBestFit:
      return pack_online(lengths, capacity);
    case config::Packing::kBestFitDecreasing:
    case config::Packing::kLevel:
      return pack_decreasing(lengths, capacity);
  }
  TRIB_RAISE(Fault::kBug, .what = "schedule: packing rule without a function",
             .found = str(static_cast<int>(rule)));
}

PackedBins pack_windows(config::Packing rule, std::span<const Tokens> lengths, Tokens capacity,
                        std::int64_t window) {
  TRIB_REQUIRE(window >= 0, .what = "schedule: window below 0", .where = "window",
               .found = str(window, " samples"), .expected = "0 (all) or above");
  if (window == 0 || window >= std::ssize(lengths)) return pack(rule, lengths, capacity);
  check_lengths(lengths, capacity);
  if (rule == config::Packing::kOnlineBestFit) return pack_stream(lengths, capacity, window);
  PackedBins packed = {.first = {0}, .items = {}};
  for (std::int64_t begin = 0; begin < std::ssize(lengths); begin += window) {
    const auto part = lengths.subspan(begin, std::min(window, std::ssize(lengths) - begin));
    append(packed, pack(rule, part, capacity), static_cast<std::int32_t>(begin));
  }
  return packed;
}

}  // namespace tributary::schedule
