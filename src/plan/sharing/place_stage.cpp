#include "plan/sharing/place_stage.h"

#include <algorithm>
#include <bit>

#include "core/random.h"

namespace tributary::plan {

StagePlacer::StagePlacer(const SharingProblem& problem, const ShareOptions& options)
    : options_(options),
      devices_(static_cast<int>(problem.devices)),
      widths_(static_cast<int>(problem.widths())),
      share_units_(static_cast<int>(problem.units)) {}

bool StagePlacer::fits(ModuleSet modules, int limit) {
  limit_ = limit;
  placed_.clear();
  order_.clear();
  for (ModuleSet rest = modules; rest != 0; rest &= rest - 1) {
    order_.push_back(std::countr_zero(rest));
    if (options_.area(order_.back(), widths_ - 1, limit) == ShareOptions::kNoArea) return false;
  }
  std::stable_sort(order_.begin(), order_.end(), [&](int a, int b) {
    return options_.area(a, widths_ - 1, limit) > options_.area(b, widths_ - 1, limit);
  });
  failures_.clear();
  Blocks blocks = {};
  blocks.fill(static_cast<std::uint8_t>(share_units_));
  return search(widths_ - 1, 0, modules, devices_ * share_units_, blocks);
}

bool StagePlacer::search(int width, int position, ModuleSet rest, int free, const Blocks& blocks) {
  if (rest == 0) return true;
  int area = 0;
  for (ModuleSet left = rest; left != 0; left &= left - 1) {
    area += options_.area(std::countr_zero(left), width, limit_);
    if (area > free) return false;
  }
  const auto modules = static_cast<int>(order_.size());
  while (position < modules && ((rest >> order_[position] & 1) == 0 ||
                                options_.units(order_[position], width, limit_) == 0)) {
    ++position;
  }
  if (position == modules)
    return width > 0 && search(width - 1, 0, rest, free, halve(width, blocks));

  const int module = order_[position];
  const int units = options_.units(module, width, limit_);
  const Situation situation = situation_of(width, position, rest, blocks);
  if (failures_.contains(situation)) return false;
  const int narrower =
      width == 0 ? ShareOptions::kNoArea : options_.area(module, width - 1, limit_);
  const bool can_wait = narrower != ShareOptions::kNoArea;
  const auto wait = [&] { return search(width, position + 1, rest, free, blocks); };
  const bool prefers_to_wait = can_wait && narrower < units << width;
  if (prefers_to_wait && wait()) return true;
  if (try_blocks(width, position, rest, free, blocks, module, units)) return true;
  if (can_wait && !prefers_to_wait && wait()) return true;
  failures_.add(situation);
  return false;
}

bool StagePlacer::try_blocks(int width, int position, ModuleSet rest, int free,
                             const Blocks& blocks, int module, int units) {
  // Blocks with equal room are interchangeable; the tightest is tried first.
  int room = units;
  while (room <= share_units_) {
    int best = -1;
    for (int block = 0; block < blocks_of(width); ++block) {
      if (blocks[block] >= room && (best < 0 || blocks[block] < blocks[best])) best = block;
    }
    if (best < 0) return false;
    ++steps_;
    Blocks next = blocks;
    next[best] = static_cast<std::uint8_t>(next[best] - units);
    placed_.push_back({.module = module,
                       .first_device = std::int64_t{best} << width,
                       .devices = std::int64_t{1} << width,
                       .share = units});
    if (search(width, position + 1, rest & ~(ModuleSet{1} << module), free - (units << width),
               next)) {
      return true;
    }
    placed_.pop_back();
    room = blocks[best] + 1;
  }
  return false;
}

StagePlacer::Blocks StagePlacer::halve(int width, const Blocks& blocks) const {
  Blocks halves = {};
  for (int block = 0; block < blocks_of(width - 1); ++block) {
    // A last block without a partner was not part of a wider block.
    halves[block] =
        block / 2 < blocks_of(width) ? blocks[block / 2] : static_cast<std::uint8_t>(share_units_);
  }
  return halves;
}

StagePlacer::Situation StagePlacer::situation_of(int width, int position, ModuleSet rest,
                                                 const Blocks& blocks) const {
  Situation situation;
  if (share_units_ > kMaxCoarseUnits) {  // the room of each of at most 16 blocks, a byte each
    Blocks rooms = blocks;
    std::sort(rooms.begin(), rooms.begin() + blocks_of(width));
    for (int block = 0; block < blocks_of(width); ++block)
      situation.counts[block / 8] |= std::uint64_t{rooms[block]} << (8 * (block % 8));
  } else {
    for (int block = 0; block < blocks_of(width); ++block) {
      if (blocks[block] == 0) continue;
      const int slot = blocks[block] - 1;  // 7 bits each, eight to a word: 64 blocks, 16 units
      situation.counts[slot / 8] += std::uint64_t{1} << (7 * (slot % 8));
    }
  }
  situation.rest =
      rest | static_cast<std::uint64_t>(width) << 32 | static_cast<std::uint64_t>(position) << 40;
  return situation;
}

void StagePlacer::Failures::clear() {
  ++question_;
  used_ = 0;
}

std::size_t StagePlacer::Failures::place_of(const Situation& situation) const {
  const std::size_t mask = entries_.size() - 1;
  std::size_t place =
      mix_bits(situation.counts[0] ^ mix_bits(situation.counts[1] ^ mix_bits(situation.rest))) &
      mask;
  while (entries_[place].question == question_ && entries_[place].situation != situation) {
    place = (place + 1) & mask;
  }
  return place;
}

bool StagePlacer::Failures::contains(const Situation& situation) const {
  return entries_[place_of(situation)].question == question_;
}

void StagePlacer::Failures::add(const Situation& situation) {
  if (2 * (used_ + 1) > entries_.size()) {
    std::vector<Entry> old(2 * entries_.size());
    old.swap(entries_);
    for (const Entry& entry : old) {
      if (entry.question == question_) entries_[place_of(entry.situation)] = entry;
    }
  }
  entries_[place_of(situation)] = {situation, question_};
  ++used_;
}

}  // namespace tributary::plan
