#include <array>

#include "tests/train/equality/cell.h"

namespace tributary::train {
namespace {

using Degree = std::int64_t config::MeshShape::*;

constexpr std::array<Degree, 5> kAxes{&config::MeshShape::dp_replicate,
                                      &config::MeshShape::dp_shard, &config::MeshShape::cp,
                                      &config::MeshShape::ulysses, &config::MeshShape::tp};

config::MeshShape shape_of(std::initializer_list<Degree> axes) {
  config::MeshShape shape;
  for (const Degree axis : axes) shape.*axis = 2;
  return shape;
}

/// Every axis alone, every pair, every triple.
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
      cells.push_back({.shape = shape, .sees = each, .recompute = {"vision", "backbone"}});
      cells.push_back({.shape = shape, .sees = each, .samples = 1});
    }
    cells.push_back({.shape = shape, .freeze = {"vision"}});
    cells.push_back({.shape = shape, .freeze = {"vision", "projector"}});
    cells.push_back({.shape = shape, .releases = false});
    cells.push_back({.shape = shape, .prefetch = 0});
    cells.push_back({.shape = shape, .samples = 24, .shards_optimizer = true});
    cells.push_back({.shape = shape, .recompute = {"vision.mlp", "backbone.mlp"}});
    cells.push_back({.shape = shape, .offload = {"vision", "projector", "backbone"}});
    cells.push_back({.shape = shape, .samples = 7, .chunks_head = true});
    if (shape.ulysses == 1) continue;
    for (const bool each : {true, false})
      cells.push_back({.shape = shape, .sees = each, .ulysses_async = true});
  }
  const config::MeshShape two{.dp_shard = 2};
  if (!all) {
    cells.push_back({.shape = two, .freeze = {"vision"}});
    cells.push_back({.shape = two, .recompute = {"vision", "backbone"}});
    cells.push_back({.shape = two, .samples = 1});
    cells.push_back({.shape = two, .releases = false, .prefetch = 2});
    cells.push_back({.shape = two, .samples = 24, .shards_optimizer = true});
    cells.push_back({.shape = two, .recompute = {"vision.mlp", "backbone.mlp"}});
    cells.push_back({.shape = {.tp = 2}, .sees = false, .recompute = {"backbone.mlp"}});
    cells.push_back({.shape = {.ulysses = 2}, .ulysses_async = true});
    cells.push_back({.shape = two, .offload = {"vision", "projector", "backbone"}});
    cells.push_back({.shape = two, .samples = 7, .chunks_head = true});
    cells.push_back({.shape = two, .sees = false, .samples = 7, .chunks_head = true});
    cells.push_back({.shape = {.cp = 2}, .sees = false, .chunks_head = true});
    cells.push_back({.shape = {.tp = 2}, .chunks_head = true});
    cells.push_back({.shape = {.cp = 2}, .recompute = {"vision", "backbone"}});
    cells.push_back({.shape = {.cp = 2}, .samples = 1});
    cells.push_back({.shape = {.cp = 2, .ulysses = 2}, .freeze = {"vision", "projector"}});
    cells.push_back({.shape = {.ulysses = 2, .tp = 2}, .sees = false, .ulysses_async = true});
    cells.push_back({.shape = {.dp_shard = 2, .tp = 2}, .recompute = {"backbone"}});
    cells.push_back({.shape = {.dp_shard = 2, .tp = 2}, .freeze = {"vision", "projector"}});
  }
  return cells;
}

}  // namespace tributary::train
