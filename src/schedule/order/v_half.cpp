#include <algorithm>
#include <array>
#include <tuple>

#include "core/error.h"
#include "schedule/order/all_orders.h"

namespace tributary::schedule {
namespace {

/// Types of passes, in the order in which a microbatch runs on a stage.
enum Type { kF0, kF1, kB1, kB0, kW, kFree };

struct Cell {
  Type type = kFree;
  int index = 0;  // microbatch; for W its number on the stage
};

/// The slots of one stage; each holds one pass of one unit of time.
using Row = std::vector<Cell>;
using Grid = std::vector<Row>;  // [stages]

/// The slot of each pass: [stage][type][index].
using Places = std::vector<std::array<std::vector<int>, 5>>;

void put(Row& row, int slot, Cell cell) {
  if (slot >= std::ssize(row)) row.resize(static_cast<std::size_t>(slot) + 1);
  TRIB_CHECK(row[slot].type == kFree, .what = "schedule: two passes in one slot",
             .found = str("slot ", slot));
  row[slot] = cell;
}

bool is_backward(Type type) { return type == kB1 || type == kB0; }

/// Gives each backward its W in a later free slot, or after the end where there is none.
Row with_weights(const Row& row) {
  Row filled = row;
  int waiting = 0;
  int weight = 0;
  for (Cell& cell : filled) {
    if (is_backward(cell.type)) ++waiting;
    if (cell.type != kFree || waiting == 0) continue;
    cell = {kW, weight++};
    --waiting;
  }
  for (; waiting > 0; --waiting) filled.push_back({kW, weight++});
  return filled;
}

void drop_weights(Grid& grid) {
  for (Row& row : grid)
    for (Cell& cell : row)
      if (cell.type == kW) cell = {};
}

bool has_weights(const Row& row) {
  return std::any_of(row.begin(), row.end(), [](const Cell& cell) { return cell.type == kW; });
}

int peak_of(const Row& row) {
  if (!has_weights(row)) return peak_of(with_weights(row));
  int live = 0;
  int peak = 0;
  for (const Cell& cell : row) {
    if (cell.type == kF0 || cell.type == kF1) peak = std::max(peak, ++live);
    if (cell.type == kW) --live;
  }
  return peak;
}

int peak_of(const Grid& grid) {
  int peak = 0;
  for (const Row& row : grid) peak = std::max(peak, peak_of(row));
  return peak;
}

Places places_of(const Grid& grid, int microbatches) {
  Places places(grid.size());
  for (std::size_t stage = 0; stage < grid.size(); ++stage) {
    for (int type = kF0; type <= kW; ++type)
      places[stage][type].resize((type == kW ? std::size_t{2} : std::size_t{1}) * microbatches, -1);
    for (int slot = 0; slot < std::ssize(grid[stage]); ++slot) {
      const Cell cell = grid[stage][slot];
      if (cell.type != kFree) places[stage][cell.type][cell.index] = slot;
    }
  }
  return places;
}

/// The slot of the same pass on the stage that it comes from; -1 at the ends of the V.
int slot_before(const Places& places, int stage, Cell cell) {
  const int from = cell.type == kF0 || cell.type == kB1 ? stage - 1 : stage + 1;
  if (cell.type == kW || from < 0 || from >= std::ssize(places)) return -1;
  return places[from][cell.type][cell.index];
}

/// Runs every stage's passes in their order, each as early as possible; returns their slots.
Grid squeeze(const Grid& grid, int microbatches) {
  Grid squeezed(grid.size());
  Places places(grid.size());
  for (auto& of_stage : places)
    for (auto& of_type : of_stage) of_type.assign(std::size_t{2} * microbatches, -1);
  std::vector<std::size_t> next(grid.size());
  const auto run_next = [&](int stage) {
    const Row& row = grid[stage];
    std::size_t& at = next[stage];
    while (at < row.size() && row[at].type == kFree) ++at;
    if (at == row.size()) return false;
    const Cell cell = row[at];
    const bool comes_from_elsewhere =
        cell.type != kW &&
        (cell.type == kF0 || cell.type == kB1 ? stage > 0 : stage + 1 < std::ssize(grid));
    const int before = slot_before(places, stage, cell);
    if (comes_from_elsewhere && before < 0) return false;
    const int slot = std::max(static_cast<int>(std::ssize(squeezed[stage])), before + 1);
    put(squeezed[stage], slot, cell);
    places[stage][cell.type][cell.index] = slot;
    ++at;
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int stage = 0; stage < std::ssize(grid); ++stage)
      while (run_next(stage)) moved = true;
  }
  return squeezed;
}

struct Visit {
  int slot;
  int stage;
  Cell cell;
};

std::vector<Visit> visits_of(const Grid& grid) {
  std::vector<Visit> visits;
  for (int stage = 0; stage < std::ssize(grid); ++stage)
    for (int slot = 0; slot < std::ssize(grid[stage]); ++slot)
      if (grid[stage][slot].type != kFree) visits.push_back({slot, stage, grid[stage][slot]});
  std::sort(visits.begin(), visits.end(), [](const Visit& a, const Visit& b) {
    return std::tie(a.slot, a.stage, a.cell.type, a.cell.index) <
           std::tie(b.slot, b.stage, b.cell.type, b.cell.index);
  });
  return visits;
}

enum class Weights { kAreMoved, kAreAddedLast };

/// Moves passes to earlier slots where dependencies and the peak allow it: those of the ramps, and
/// while ramping up only together with their weights.
class Compaction {
 public:
  Compaction(Grid grid, int microbatches, Weights weights)
      : grid_(std::move(grid)), microbatches_(microbatches), weights_(weights) {
    if (weights_ == Weights::kAreMoved)
      for (Row& row : grid_) row = with_weights(row);
    max_in_flight_ = peak_of(grid_);
    places_ = places_of(grid_, microbatches_);
  }

  [[nodiscard]] Grid run() {
    enum { kWarmUp, kSteady, kDrain } phase = kWarmUp;
    for (const Visit& visit : visits_of(grid_)) {
      if (phase == kWarmUp && visit.stage == 0 && visit.cell.type == kB0) phase = kSteady;
      if (phase == kSteady) {
        if (visit.cell.type == kF0 && visit.cell.index == microbatches_ - 1) phase = kDrain;
        continue;
      }
      if (phase == kWarmUp && weights_ == Weights::kAreAddedLast) continue;
      move_earlier(visit);
    }
    if (weights_ == Weights::kAreAddedLast)
      for (Row& row : grid_) row = with_weights(row);
    return squeeze(grid_, microbatches_);
  }

 private:
  [[nodiscard]] int latest_needed(int stage, Cell cell) const {
    const auto& own = places_[stage];
    int latest = slot_before(places_, stage, cell);
    if (cell.index > 0) latest = std::max(latest, own[cell.type][cell.index - 1]);
    if (cell.type == kW) {
      latest = std::max(latest, slot_of_backward(stage, cell.index));
    } else if (cell.type != kF0) {
      latest = std::max(latest, own[cell.type - 1][cell.index]);
    }
    return latest;
  }

  [[nodiscard]] int slot_of_backward(int stage, int number) const {
    const Row& row = grid_[stage];
    for (int slot = 0; slot < std::ssize(row); ++slot)
      if (is_backward(row[slot].type) && number-- == 0) return slot;
    return -1;
  }

  void move_earlier(const Visit& visit) {
    Row& row = grid_[visit.stage];
    for (int slot = latest_needed(visit.stage, visit.cell) + 1; slot < visit.slot; ++slot) {
      if (row[slot].type != kFree) continue;
      std::swap(row[slot], row[visit.slot]);
      if (peak_of(row) <= max_in_flight_) {
        places_[visit.stage][visit.cell.type][visit.cell.index] = slot;
        return;
      }
      std::swap(row[slot], row[visit.slot]);
    }
  }

  Grid grid_;
  int microbatches_;
  Weights weights_;
  int max_in_flight_ = 0;
  Places places_;
};

enum class VPattern { kHalf, kMin };

/// The steady pattern: every microbatch repeats the one before it, six slots later.
Grid repeat_pattern(VPattern pattern, int stages, int microbatches) {
  constexpr int kPeriod = 6;
  Grid grid(static_cast<std::size_t>(stages));
  const bool half = pattern == VPattern::kHalf;
  // Shifts the backwards so that no two passes of a stage share a slot.
  const int shift = half ? (stages % 2 == 0 ? 3 : 0) : (stages % 3 == 0 ? 2 : 0);
  for (int i = 0; i < stages; ++i) {
    const std::array<int, 4> first =
        half ? std::array<int, 4>{2 * i, 3 * stages - i - 2, 3 * stages + shift + 2 * i - 1,
                                  6 * stages + shift - i - 2}
             : std::array<int, 4>{i, 2 * stages - i - 1, 2 * stages + shift + i,
                                  4 * stages + shift - i - 1};
    for (int microbatch = 0; microbatch < microbatches; ++microbatch)
      for (int type = kF0; type <= kB0; ++type)
        put(grid[i], first[type] + kPeriod * microbatch, {static_cast<Type>(type), microbatch});
  }
  return grid;
}

/// Lists a row; W gets the chunk and microbatch of its backward.
ActionList list_row(const Row& row) {
  ActionList list;
  ActionList weights;
  std::size_t next = 0;
  for (const Cell& cell : row) {
    const int chunk = cell.type == kF1 || cell.type == kB1 ? 1 : 0;
    if (cell.type == kFree) continue;
    if (cell.type == kW) {
      list.push_back(weights[next++]);
    } else if (is_backward(cell.type)) {
      list.push_back({.op = Op::kBackwardInput, .chunk = chunk, .microbatch = cell.index});
      weights.push_back({.op = Op::kBackwardWeight, .chunk = chunk, .microbatch = cell.index});
    } else {
      list.push_back({.op = Op::kForward, .chunk = chunk, .microbatch = cell.index});
    }
  }
  return list;
}

StageLists list_pattern(VPattern pattern, const OrderShape& shape) {
  const int microbatches = shape.microbatches;
  Grid grid = repeat_pattern(pattern, shape.stages, microbatches);
  grid = Compaction(std::move(grid), microbatches, Weights::kAreMoved).run();
  drop_weights(grid);
  grid = Compaction(std::move(grid), microbatches, Weights::kAreAddedLast).run();
  drop_weights(grid);
  StageLists lists;
  for (const Row& row : grid) lists.push_back(list_row(with_weights(row)));
  return lists;
}

}  // namespace

StageLists list_v_half(const OrderShape& shape) { return list_pattern(VPattern::kHalf, shape); }

StageLists list_v_min(const OrderShape& shape) { return list_pattern(VPattern::kMin, shape); }

}  // namespace tributary::schedule
