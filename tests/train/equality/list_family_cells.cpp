#include "tests/train/equality/cell_parts.h"

namespace tributary::train {
namespace {

/// Qwen2.5-Omni with towers on meshes of their own: one of them, both on ranks of their own, one
/// colocated beside a separate one, and both colocated.
std::vector<Cell> list_branches() {
  std::vector<Cell> cells{
      with_tower({.shape = {}}, {}),
      {.shape = {}, .audio = {{}}, .layers = 4},
      with_tower({.shape = {.tp = 2}, .audio = {{}}}, {}),
      with_tower({.shape = {.dp_shard = 2}, .audio = {{.tp = 2}}}, {.dp_shard = 2}),
      with_tower({.shape = {.tp = 2}, .audio = {{.dp_shard = 2}}, .freeze = {"vision"}},
                 {.dp_shard = 2}, 2),
      with_tower(pipeline({.pp = 2}, Order::kZbV), {.dp_shard = 2}),
      with_tower(pipeline({.pp = 2}, Order::k1f1b), {.dp_shard = 2}),
      with_tower(pipeline({.pp = 2, .tp = 2}, Order::kInterleaved), {.pp = 2})};
  cells[5].audio = {{.dp_shard = 2}};
  cells[5].freeze = {"audio", "audio_projector"};
  cells[6].audio = {{.pp = 2}};
  cells[7].audio = {{.dp_shard = 2}};
  const auto colocate = [](Cell cell, const config::MeshShape& audio, std::int64_t passes,
                           bool turns = false) {
    cell.audio = audio;
    cell.audio_passes = passes;
    cell.audio_turns = turns;
    return cell;
  };
  cells.push_back(
      colocate(with_tower({.shape = {.tp = 2}}, {.dp_shard = 2}, 2), {.dp_replicate = 2}, 3));
  cells.push_back(
      colocate(with_tower(pipeline({.pp = 2, .dp_shard = 2}, Order::k1f1b), {.dp_shard = 4}, 1),
               {.dp_shard = 2, .tp = 2}, 2));
  cells.push_back(colocate(with_tower(pipeline({.pp = 2}, Order::k1f1b), {.tp = 2}, 2),
                           {.dp_replicate = 2}, 2, true));
  cells.back().freeze = {"vision"};
  cells.push_back(colocate(
      with_turns(pipeline({.pp = 2, .tp = 2}, Order::k1f1b), {.dp_replicate = 2, .dp_shard = 2}, 2),
      {.dp_replicate = 2, .tp = 2}, 3, true));
  return cells;
}

}  // namespace

void add_towers(std::vector<Cell>& cells) {
  for (const config::VisionClass tower :
       {config::VisionClass::kQwen2Vl, config::VisionClass::kQwen3Vl,
        config::VisionClass::kInternVit, config::VisionClass::kSiglip}) {
    std::vector<Cell> own{{.shape = {.dp_shard = 2}},
                          {.shape = {.tp = 2}},
                          {.shape = {.cp = 2}},
                          {.shape = {.pp = 2}, .vision_stages = 1, .layers = 2},
                          {.shape = {.pp = 2, .tp = 2}, .layers = 2, .freeze = {"vision"}},
                          with_tower({.shape = {.dp_shard = 2}}, {.tp = 2}, 2),
                          with_tower({.shape = {.tp = 2}}, {.pp = 2})};
    if (tower == config::VisionClass::kQwen3Vl) own.push_back({.shape = {.pp = 2, .cp = 2}});
    own.push_back({.shape = {.tp = 2}, .adapter = kLora});
    for (Cell& cell : own) {
      cell.tower = tower;
      cells.push_back(cell);
    }
  }
}

void add_texts(std::vector<Cell>& cells) {
  const auto add = [&](config::ModelFamily family, const config::MeshShape& shape) {
    cells.push_back({.shape = shape, .sees = false, .text = family});
  };
  for (const config::MeshShape& shape :
       {shape_of({&config::MeshShape::tp}), shape_of({&config::MeshShape::cp}),
        shape_of({&config::MeshShape::dp_shard}), shape_of({&config::MeshShape::pp})}) {
    add(config::ModelFamily::kQwen2, shape);
    add(config::ModelFamily::kLlama, shape);
  }
  cells.back().adapter = kLora;
  add(config::ModelFamily::kQwen3, shape_of({&config::MeshShape::pp}));
}

void add_sound(bool all, std::vector<Cell>& cells) {
  std::vector<Cell> own{{.shape = {.dp_shard = 2}},
                        {.shape = {.tp = 2}},
                        {.shape = {.cp = 2}},
                        {.shape = {.ulysses = 2}},
                        {.shape = {.pp = 2}},
                        {.shape = {.tp = 2}, .freeze = {"audio"}},
                        {.shape = {.dp_shard = 2}, .recompute = {{"audio"}, {"backbone"}}},
                        with_tower({}, {}),
                        with_tower({.shape = {.dp_shard = 2}}, {.tp = 2}, 2),
                        with_tower({.shape = {.tp = 2}}, {.pp = 2})};
  if (all) {
    own.push_back(with_tower({.shape = {.cp = 2, .tp = 2}}, {.dp_shard = 2, .tp = 2}, 3));
    own.push_back(with_tower(pipeline({.pp = 2, .dp_shard = 2}, Order::kZbV), {.dp_shard = 4}));
  }
  own.push_back({.shape = {.tp = 2}, .adapter = kLora});
  const std::size_t alone = own.size();
  own.push_back({.shape = {.dp_shard = 2}});
  own.push_back({.shape = {.tp = 2}});
  own.push_back({.shape = {.cp = 2}});
  own.push_back({.shape = {.pp = 2}});
  own.push_back({.shape = {.dp_shard = 2}, .freeze = {"vision", "audio_projector"}});
  own.push_back({.shape = {.tp = 2}, .adapter = kLora});
  for (Cell& cell : list_branches()) {
    cell.has_text_steps = true;
    own.push_back(cell);
    if (!all || !cell.freeze.empty()) continue;
    cell.freeze = {"vision", "audio"};
    own.push_back(cell);
    cell.freeze.push_back("backbone");
    own.push_back(cell);
  }
  for (std::size_t i = 0; i < own.size(); ++i) {
    Cell& cell = own[i];
    cell.hears = true;
    cell.sees = i >= alone;
    cells.push_back(cell);
  }
}

}  // namespace tributary::train
