#include <array>

#include "tests/train/equality/cell_parts.h"

namespace tributary::train {
namespace {

constexpr std::array<Degree, 5> kAxes{&config::MeshShape::dp_replicate,
                                      &config::MeshShape::dp_shard, &config::MeshShape::cp,
                                      &config::MeshShape::ulysses, &config::MeshShape::tp};

constexpr config::RecomputePlan kMlps = config::RecomputePlan::kSelective;
constexpr config::RecomputePlan kAttention = config::RecomputePlan::kAttention;

/// Every single axis, every pair, every triple.
std::vector<config::MeshShape> list_shapes() {
  std::vector<config::MeshShape> shapes;
  for (std::size_t i = 0; i < kAxes.size(); ++i) {
    shapes.push_back(shape_of({kAxes[i]}));
    for (std::size_t j = i + 1; j < kAxes.size(); ++j) {
      shapes.push_back(shape_of({kAxes[i], kAxes[j]}));
      for (std::size_t k = j + 1; k < kAxes.size(); ++k)
        shapes.push_back(shape_of({kAxes[i], kAxes[j], kAxes[k]}));
    }
  }
  shapes.push_back({.dp_shard = 4});
  shapes.push_back({.dp_shard = 8});
  shapes.push_back({.tp = 4});
  shapes.push_back({.dp_shard = 2, .tp = 4});
  shapes.push_back({.cp = 4});
  shapes.push_back({.ulysses = 4});
  return shapes;
}

/// The cell with packed mixed batches, with frozen vision, recomputed, and with a tied head.
std::vector<Cell> under_all_conditions(const Cell& cell) {
  std::vector<Cell> cells(4, cell);
  cells[1].freeze = {"vision"};
  cells[2].recompute = {{"vision"}, {"backbone"}};
  cells[3].ties_head = true;
  return cells;
}

/// Adds every schedule on 2 and 4 stages under all conditions, on stages that are cut further, and
/// with the tower on a stage of its own; without `all` a part that covers each of these once.
void add_pipelines(bool all, std::vector<Cell>& cells) {
  std::size_t number = 0;
  const auto add = [&](const std::vector<Cell>& some) {
    if (all)
      cells.insert(cells.end(), some.begin(), some.end());
    else
      cells.push_back(some[number % some.size()]);
  };
  for (const Order order : {Order::kGpipe, Order::k1f1b, Order::kInterleaved, Order::kZbH1,
                            Order::kZbV, Order::kVHalf, Order::kVMin}) {
    ++number;
    const std::vector<Cell> two = under_all_conditions(pipeline({.pp = 2}, order));
    cells.insert(cells.end(), two.begin(), two.end());
    add(under_all_conditions(pipeline({.pp = 4}, order)));
    std::vector<Cell> cut{pipeline({.pp = 2, .dp_shard = 2}, order),
                          pipeline({.pp = 2, .tp = 2}, order), pipeline({.pp = 2, .cp = 2}, order)};
    cut[1].ties_head = true;
    add(cut);
    if (!all && order != Order::k1f1b && order != Order::kZbV) continue;
    std::vector<Cell> eight{pipeline({.pp = 2, .dp_shard = 2, .tp = 2}, order),
                            pipeline({.pp = 4, .dp_shard = 2}, order),
                            pipeline({.pp = 2, .dp_replicate = 2, .ulysses = 2}, order)};
    eight[0].recompute = {{"backbone"}};
    eight[1].freeze = {"vision"};
    eight[1].ties_head = true;
    eight[2].offload = {"vision", "projector", "backbone"};
    add(eight);
  }
  for (const Order order : {Order::k1f1b, Order::kZbH1, Order::kZbV}) {
    ++number;
    std::vector<Cell> apart{pipeline({.pp = 4}, order), pipeline({.pp = 2, .tp = 2}, order),
                            pipeline({.pp = 2, .dp_shard = 2}, order)};
    apart[2].freeze = {"vision"};
    for (Cell& cell : apart) {
      cell.layers = 6;  // for two stages, and for three
      cell.vision_stages = 1;
    }
    add(apart);
  }
}

/// Adds adapters under every axis, order and placement.
void add_adapters(std::vector<Cell>& cells) {
  const config::AdapterSection& lora = kLora;
  const config::AdapterSection dora{.kind = config::AdapterKind::kDora, .rank = 2, .rslora = true};
  const config::AdapterSection some{.kind = config::AdapterKind::kDora,
                                    .targets = {"q_proj", "v_proj", "model.layers.1.*.o_proj"}};
  std::vector<Cell> own{{.shape = {.dp_shard = 2}, .adapter = lora},
                        {.shape = {.dp_replicate = 2}, .freeze = {"vision"}, .adapter = dora},
                        {.shape = {.tp = 2}, .adapter = dora},
                        {.shape = {.tp = 2}, .sees = false, .adapter = some},
                        {.shape = {.cp = 2}, .adapter = lora, .recompute = {{"backbone"}}},
                        {.shape = {.ulysses = 2}, .adapter = some, .ulysses_async = true},
                        {.shape = {.dp_shard = 2}, .adapter = dora, .shards_optimizer = true},
                        {.shape = {.tp = 4}, .adapter = dora},
                        {.shape = {.dp_shard = 2, .tp = 2},
                         .adapter = dora,
                         .recompute = {{"vision", kMlps}, {"backbone", kMlps}}},
                        {.shape = {.dp_shard = 2, .tp = 2}, .releases = false, .prefetch = 2}};
  own.back().adapter = lora;
  for (const Order order : {Order::k1f1b, Order::kZbH1, Order::kZbV}) {
    own.push_back(pipeline({.pp = 2}, order));
    own.back().adapter = order == Order::kZbH1 ? dora : lora;
  }
  own.push_back(pipeline({.pp = 2, .tp = 2}, Order::kZbH1));
  own.back().adapter = dora;
  own.push_back(with_tower({.shape = {.tp = 2}}, {.dp_shard = 2}, 1));
  own.back().adapter = lora;
  own.push_back(with_tower({.shape = {.dp_shard = 2}}, {.tp = 2}));
  own.back().adapter = dora;
  for (Cell& cell : own) cells.push_back(std::move(cell));
}

/// Adds attention that runs again where it has collectives inside, and where weight gradients wait.
void add_attention_again(std::vector<Cell>& cells) {
  for (Cell cell : {Cell{.shape = {.dp_shard = 2}}, Cell{.shape = {.tp = 2}},
                    Cell{.shape = {.cp = 2}, .sees = false},
                    Cell{.shape = {.ulysses = 2}, .sees = false, .ulysses_async = true},
                    Cell{.shape = {.cp = 2, .tp = 2}}, pipeline({.pp = 2}, Order::kZbV)}) {
    cell.recompute = {{"vision", kAttention}, {"backbone", kAttention}};
    cells.push_back(std::move(cell));
  }
}

/// Adds Muon where a matrix is cut over ranks, and where it is not.
void add_muon(std::vector<Cell>& cells) {
  for (Cell cell :
       {Cell{.shape = {.dp_shard = 2}}, Cell{.shape = {.tp = 2}},
        Cell{.shape = {.tp = 4}, .sees = false}, Cell{.shape = {.dp_shard = 2, .tp = 2}},
        pipeline({.pp = 2, .dp_replicate = 2}, Order::kZbH1)}) {
    cell.optimizer = config::OptimizerKind::kMuon;
    cells.push_back(std::move(cell));
  }
}

/// Placements on 2, 4, 6 and 8 processes.
std::vector<Cell> list_placements() {
  const Order interleaved = Order::kInterleaved;
  return {with_tower({}, {}),
          with_tower({.shape = {.tp = 2}}, {.dp_shard = 2}, 1),
          with_tower({.shape = {.dp_shard = 2}}, {.tp = 2}, 2),
          with_tower(pipeline({.pp = 3}, Order::kZbV), {}),
          with_tower(pipeline({.pp = 2}, Order::k1f1b), {.dp_shard = 2}),
          with_tower({.shape = {.dp_shard = 3}}, {}),
          with_tower({.shape = {.tp = 2}}, {.dp_replicate = 2}),
          with_tower(pipeline({.pp = 2, .tp = 2}, interleaved), {.dp_shard = 4}, 2),
          with_tower({.shape = {.cp = 2, .tp = 2}}, {.dp_shard = 2, .tp = 2}, 3),
          with_tower({.shape = {.dp_shard = 2, .tp = 2}}, {.tp = 2}),
          with_tower({.shape = {.cp = 2}, .samples = 9}, {.dp_shard = 4}),
          with_tower(pipeline({.pp = 2, .dp_shard = 2}, Order::kZbH1), {.pp = 2}),
          with_tower({.shape = {.dp_shard = 3, .tp = 2}}, {.dp_shard = 6}, 1),
          with_tower(pipeline({.pp = 2, .dp_shard = 2}, Order::kZbV), {.dp_shard = 4}),
          with_tower({.shape = {.dp_replicate = 2, .tp = 2}}, {.dp_shard = 2, .cp = 2}),
          with_tower({.shape = {.dp_shard = 5}, .samples = 11}, {.dp_replicate = 3}),
          with_tower(pipeline({.pp = 2, .dp_shard = 2, .tp = 2}, Order::k1f1b),
                     {.dp_replicate = 2, .dp_shard = 4}, 2),
          with_tower(pipeline({.pp = 2}, Order::kZbH1), {.dp_shard = 2}, 2),
          with_tower(pipeline({.pp = 2, .tp = 2}, Order::kZbV), {.dp_shard = 4}, 2),
          with_turns(pipeline({.pp = 2}, Order::k1f1b), {.dp_replicate = 2}, 2),
          with_turns(pipeline({.pp = 2, .dp_shard = 2}, interleaved),
                     {.dp_replicate = 2, .dp_shard = 2}, 3),
          with_turns({.shape = {.dp_shard = 2, .tp = 2}}, {.dp_shard = 4}, 4),
          with_turns(pipeline({.pp = 3, .tp = 2}, Order::k1f1b), {.dp_replicate = 3, .tp = 2}, 3),
          with_turns(pipeline({.pp = 4, .dp_shard = 2}, Order::kGpipe),
                     {.dp_replicate = 4, .tp = 2}, 4)};
}

/// Adds every placement with all modules trained, with a frozen tower and with the projector alone;
/// without `all` each once.
void add_placements(bool all, std::vector<Cell>& cells) {
  const std::vector<std::vector<std::string>> frozen{{}, {"vision"}, {"vision", "backbone"}};
  std::size_t number = 0;
  for (Cell cell : list_placements()) {
    cell.has_text_steps = true;
    for (std::size_t i = 0; i < (all ? frozen.size() : 1); ++i) {
      cell.freeze = frozen[all ? i : number++ % frozen.size()];
      cells.push_back(cell);
    }
  }
}

}  // namespace

std::vector<Cell> list_cells(bool all) {
  std::vector<Cell> cells;
  bool sees = true;
  for (const config::MeshShape& shape : list_shapes()) {
    if (!all) {
      cells.push_back({.shape = shape, .sees = sees});
      sees = !sees;
      continue;
    }
    for (const bool each : {true, false}) {
      cells.push_back({.shape = shape, .sees = each});
      cells.push_back({.shape = shape, .sees = each, .recompute = {{"vision"}, {"backbone"}}});
      cells.push_back({.shape = shape, .sees = each, .samples = 1});
    }
    cells.push_back({.shape = shape, .freeze = {"vision"}});
    cells.push_back({.shape = shape, .freeze = {"vision", "projector"}});
    cells.push_back({.shape = shape, .releases = false});
    cells.push_back({.shape = shape, .prefetch = 0});
    cells.push_back({.shape = shape, .samples = 24, .shards_optimizer = true});
    cells.push_back({.shape = shape, .recompute = {{"vision", kMlps}, {"backbone", kMlps}}});
    cells.push_back({.shape = shape, .offload = {"vision", "projector", "backbone"}});
    cells.push_back({.shape = shape, .samples = 7, .chunks_head = true});
    for (const std::int64_t level : {0, 3})
      cells.push_back({.shape = shape,
                       .samples = 24,
                       .balance = config::Balance::kLpt2d,
                       .microbatches = level});
    if (shape.ulysses == 1) continue;
    for (const bool each : {true, false})
      cells.push_back({.shape = shape, .sees = each, .ulysses_async = true});
  }
  const config::MeshShape two{.dp_shard = 2};
  if (!all) {
    cells.push_back({.shape = two, .freeze = {"vision"}});
    cells.push_back({.shape = two, .recompute = {{"vision"}, {"backbone"}}});
    cells.push_back({.shape = two, .samples = 1});
    cells.push_back({.shape = two, .releases = false, .prefetch = 2});
    cells.push_back({.shape = two, .samples = 24, .shards_optimizer = true});
    cells.push_back({.shape = two, .recompute = {{"vision", kMlps}, {"backbone", kMlps}}});
    cells.push_back({.shape = {.tp = 2}, .sees = false, .recompute = {{"backbone", kMlps}}});
    cells.push_back({.shape = {.ulysses = 2}, .ulysses_async = true});
    cells.push_back({.shape = two, .offload = {"vision", "projector", "backbone"}});
    cells.push_back({.shape = two, .samples = 7, .chunks_head = true});
    cells.push_back({.shape = two, .sees = false, .samples = 7, .chunks_head = true});
    cells.push_back({.shape = two, .samples = 24, .balance = config::Balance::kLpt2d});
    cells.push_back({.shape = {.dp_replicate = 2}, .samples = 9, .balance = config::Balance::kLpt});
    cells.push_back(
        {.shape = two,
         .recompute = {{"vision", kMlps, 2}, {"backbone", config::RecomputePlan::kFull, 2}}});
    cells.push_back({.shape = {.dp_replicate = 2, .dp_shard = 2, .tp = 2},
                     .samples = 24,
                     .balance = config::Balance::kLpt2d});
    cells.push_back({.shape = {.dp_replicate = 2},
                     .samples = 24,
                     .balance = config::Balance::kLpt2d,
                     .microbatches = 3});
    cells.push_back({.shape = {.pp = 2, .dp_shard = 2},
                     .layers = 3,
                     .samples = 24,
                     .balance = config::Balance::kLpt2d,
                     .microbatches = 5});
    cells.push_back({.shape = {.cp = 2}, .sees = false, .chunks_head = true});
    cells.push_back({.shape = {.tp = 2}, .chunks_head = true});
    cells.push_back({.shape = {.cp = 2}, .recompute = {{"vision"}, {"backbone"}}});
    cells.push_back({.shape = {.cp = 2}, .samples = 1});
    cells.push_back({.shape = {.cp = 2, .ulysses = 2}, .freeze = {"vision", "projector"}});
    cells.push_back({.shape = {.ulysses = 2, .tp = 2}, .sees = false, .ulysses_async = true});
    cells.push_back({.shape = {.dp_shard = 2, .tp = 2}, .recompute = {{"backbone"}}});
    cells.push_back({.shape = {.dp_shard = 2, .tp = 2}, .freeze = {"vision", "projector"}});
  }
  add_pipelines(all, cells);
  add_placements(all, cells);
  add_towers(cells);
  add_adapters(cells);
  add_attention_again(cells);
  add_muon(cells);
  add_sound(all, cells);
  add_texts(cells);
  if (!all)
    for (Cell& cell : cells) cell.steps = 5;
  return cells;
}

}  // namespace tributary::train
