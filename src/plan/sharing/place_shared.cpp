#include "plan/sharing/place_shared.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace tributary::plan {
namespace {

constexpr std::int64_t kNotPlaced = std::numeric_limits<std::int64_t>::max();

}  // namespace

SharedPlacer::SharedPlacer(const SharingProblem& problem, const ShareOptions& options)
    : problem_(problem), options_(options) {}

SharedPlacer::Answer SharedPlacer::solve(ModuleSet modules, Nanoseconds min, Nanoseconds max,
                                         std::int64_t steps) {
  order_.clear();
  for (ModuleSet rest = modules; rest != 0; rest &= rest - 1) {
    order_.push_back(std::countr_zero(rest));
  }
  std::stable_sort(order_.begin(), order_.end(),
                   [&](int a, int b) { return options_.work(a) > options_.work(b); });
  min_ = min.count;
  found_ = kNotPlaced;
  last_step_ = steps_ + steps;
  Blocks start = {};
  for (Block& block : start) {
    block = {.units = problem_.units, .memory = problem_.memory.value_or(Bytes{kNotPlaced}).count};
  }
  // A tight limit is refuted quickly. It grows until something fits, which then tightens it again.
  for (std::int64_t limit = min_, step = std::max<std::int64_t>(min_ / 64, 1);;
       limit += step, step *= 2) {
    max_ = std::min(limit, max.count);
    const bool is_last = max_ == max.count;
    placed_.clear();
    Blocks blocks = start;
    search(static_cast<int>(problem_.widths()) - 1, 0, modules, problem_.devices * problem_.units,
           blocks);
    const bool is_cut = steps_ >= last_step_;
    if (found_ != kNotPlaced || is_cut || is_last) {
      return {.value = found_ == kNotPlaced ? std::nullopt : std::optional(Nanoseconds{found_}),
              .is_proven = !is_cut || found_ <= min_};
    }
  }
}

bool SharedPlacer::may_fit(int width, ModuleSet rest, std::int64_t free) const {
  const int limit = options_.last_within(max_);
  if (limit < 0) return false;
  for (ModuleSet left = rest; left != 0; left &= left - 1) {
    free -= options_.area(std::countr_zero(left), width, limit);
    if (free < 0) return false;
  }
  return true;
}

void SharedPlacer::search(int width, std::size_t position, ModuleSet rest, std::int64_t free,
                          Blocks& blocks) {
  if (rest == 0) {
    keep(blocks);
    return;
  }
  if (is_over() || !may_fit(width, rest, free)) return;
  while (position < order_.size() && (rest >> order_[position] & 1) == 0) ++position;
  if (position < order_.size()) {
    try_shares(width, position, rest, free, blocks);
    if (width > 0) search(width, position + 1, rest, free, blocks);
    return;
  }
  if (width == 0) return;
  Blocks halves = {};
  const std::int64_t wide = problem_.devices >> width;
  for (std::int64_t block = 0; block < problem_.devices >> (width - 1); ++block) {
    halves[block] = block / 2 < wide
                        ? blocks[block / 2]
                        : Block{.units = problem_.units,
                                .memory = problem_.memory.value_or(Bytes{kNotPlaced}).count};
  }
  search(width - 1, 0, rest, free, halves);
}

void SharedPlacer::try_shares(int width, std::size_t position, ModuleSet rest, std::int64_t free,
                              Blocks& blocks) {
  const int module = order_[position];
  std::int64_t fastest = kNotPlaced;
  for (std::int64_t share = 1; share <= problem_.units; ++share) {
    const std::int64_t time = problem_.time(module, width, share).count;
    // More units that save no time are useless, unless they take less bandwidth.
    if (time > max_ ||
        (time >= fastest && problem_.interference.form == Interference::Form::kNone)) {
      continue;
    }
    fastest = std::min(fastest, time);
    for (std::int64_t block = 0; block < problem_.devices >> width; ++block) {
      if (is_over()) return;
      const bool is_first_empty =
          blocks[block].traffic.modules > 0 || block == 0 || blocks[block - 1].traffic.modules > 0;
      if (!is_first_empty) continue;
      const Block before = blocks[block];
      ++steps_;
      placed_.push_back({.module = module,
                         .first_device = block << width,
                         .devices = std::int64_t{1} << width,
                         .share = share});
      if (put(blocks[block], module, width, share) && may_end(blocks[block], block << width))
        search(width, position + 1, rest & ~(ModuleSet{1} << module), free - (share << width),
               blocks);
      placed_.pop_back();
      blocks[block] = before;
    }
  }
}

bool SharedPlacer::put(Block& block, int module, int width, std::int64_t share) const {
  const SharedModule& added = problem_.modules[module];
  block.units -= share;
  if (!added.memory.empty()) block.memory -= added.memory[width].count;
  block.traffic.add(problem_.bandwidth(module, width, share));
  return block.units >= 0 && block.memory >= 0;
}

bool SharedPlacer::may_end(const Block& block, std::int64_t device) const {
  return std::all_of(placed_.begin(), placed_.end(), [&](const PlacedModule& place) {
    if (device < place.first_device || device >= place.first_device + place.devices) return true;
    const auto width = std::countr_zero(static_cast<std::uint64_t>(place.devices));
    return min_slowed(problem_.interference, problem_.time(place.module, width, place.share),
                      problem_.bandwidth(place.module, width, place.share), block.traffic)
               .count <= max_;
  });
}

void SharedPlacer::keep(const Blocks& blocks) {
  // Blocks are now of the narrowest width reached, at least as fine as any placement.
  std::vector<PlacedModule> found = placed_;
  std::int64_t finest = problem_.devices;
  for (const PlacedModule& place : found) finest = std::min(finest, place.devices);
  std::int64_t value = 0;
  for (PlacedModule& place : found) {
    const auto width = std::countr_zero(static_cast<std::uint64_t>(place.devices));
    const Nanoseconds alone = problem_.time(place.module, width, place.share);
    const double own = problem_.bandwidth(place.module, width, place.share);
    for (std::int64_t device = 0; device < place.devices; device += finest) {
      const Block& block = blocks[(place.first_device + device) / finest];
      place.time = std::max(place.time, slowed(problem_.interference, alone, own, block.traffic));
    }
    value = std::max(value, place.time.count);
  }
  if (value > max_ || value >= found_) return;
  found_ = value;
  max_ = value - 1;
  best_ = std::move(found);
}

}  // namespace tributary::plan
