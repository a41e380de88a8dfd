#pragma once

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "tests/train/equality/cell.h"

// What lists of cells are made of.
namespace tributary::train {

using Degree = std::int64_t config::MeshShape::*;

using Order = config::PipelineOrder;

inline const config::AdapterSection kLora{
    .kind = config::AdapterKind::kLora, .rank = 3, .alpha = 6};

inline config::MeshShape shape_of(std::initializer_list<Degree> axes) {
  config::MeshShape shape;
  for (const Degree axis : axes) shape.*axis = 2;
  return shape;
}

inline Cell pipeline(const config::MeshShape& shape, Order order) {
  return {.shape = shape,
          .order = order,
          .virtual_stages = order == Order::kInterleaved ? 2 : 1,
          .layers = 8,
          .samples = 24};
}

/// A tower with a mesh of its own: separate, or colocated in some passes.
inline Cell with_tower(Cell cell, const config::MeshShape& tower, std::int64_t passes = 0) {
  cell.vision = tower;
  cell.vision_passes = passes;
  cell.layers = std::max<std::int64_t>(cell.layers, 4);
  return cell;
}

/// A colocated tower whose passes run among those of the backbone.
inline Cell with_turns(Cell cell, const config::MeshShape& tower, std::int64_t passes) {
  cell = with_tower(std::move(cell), tower, passes);
  cell.vision_turns = true;
  return cell;
}

// The cells of one model family beside another.

/// Adds the other towers that see: every axis, a tower on a stage of its own, one with ranks of its
/// own and a colocated one. Levels of features cross every cut of Qwen3-VL.
void add_towers(std::vector<Cell>& cells);
/// Adds Qwen2-Audio: every axis, frozen and recomputed, and its tower with ranks of its own, on
/// two stages and colocated; and Qwen2.5-Omni with its two towers inline and apart, with `all` also
/// with both frozen, and with the projectors alone.
void add_sound(bool all, std::vector<Cell>& cells);
/// Adds the models of text that no other cell has.
void add_texts(std::vector<Cell>& cells);

}  // namespace tributary::train
