#include <filesystem>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <ATen/ATen.h>

#include "core/text.h"
#include "tests/mesh/thread_ranks.h"
#include "tests/train/equality/trainee.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/unit_parts.h"

namespace tributary::train {
namespace {

using config::MeshShape;

std::string scratch() {
  const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / ("reshard." + name);
  std::filesystem::remove_all(path);
  return path.string();
}

CheckpointContent content_of(const Trainee& trainee, std::int64_t step) {
  CheckpointContent content;
  content.step = step;
  content.config = "run: {}\n";
  content.model_directory = "/";
  content.state = "{}";
  content.model = list_parameters(trainee.model());
  content.optimizer = trainee.optimizer().state();
  return content;
}

/// Every whole tensor of parameters and moments, put together from what the ranks hold.
class WholeState {
 public:
  void add(const CheckpointContent& content) {
    const std::scoped_lock lock(mutex_);
    for (const auto* list : {&content.model, &content.optimizer})
      for (const NamedTensor& tensor : *list) {
        at::Tensor& whole = tensors_
                                .try_emplace(tensor.name, at::full(tensor.whole_shape(), -77.0,
                                                                   tensor.value.options()))
                                .first->second;
        const Box box = tensor.box();
        at::Tensor part = whole;
        for (std::size_t i = 0; i < box.lengths.size(); ++i)
          part = part.narrow(static_cast<std::int64_t>(i), box.offsets[i], box.lengths[i]);
        part.copy_(tensor.value.view(box.lengths));
      }
  }
  [[nodiscard]] const std::map<std::string, at::Tensor>& tensors() const { return tensors_; }

 private:
  std::mutex mutex_;
  std::map<std::string, at::Tensor> tensors_;
};

void save(const mesh::World& world, const Trainee& trainee, const std::string& root,
          std::int64_t step) {
  CheckpointWriter writer(
      {.root = root, .keep_best = false, .start_step = step - 1, .ranks = &world.saving()});
  writer.save(content_of(trainee, step));
  writer.finish();
}

/// Where the modules of the one model of these tests lie.
Cell laid_out(const MeshShape& shape, const std::optional<MeshShape>& vision = std::nullopt) {
  return {.shape = shape, .vision = vision, .layers = 4, .samples = 8, .steps = 2};
}

/// Trains two steps under `first`, then passes the state through files under `second` and back.
void expect_same_bits(const Cell& first, const Cell& second) {
  SCOPED_TRACE(str(first.name(), " -> ", second.name()));
  const std::string root = scratch();
  WholeState before;
  mesh::run_worlds(static_cast<int>(first.world()), [&](const mesh::World& world) {
    Trainee trainee(first, world);
    for (int step = 0; step < first.steps; ++step) {
      (void)trainee.differentiate(step);
      (void)trainee.update();
    }
    before.add(content_of(trainee, 1));
    save(world, trainee, root, 1);
  });
  WholeState after;
  std::int64_t step = 1;
  for (const Cell* cell : {&second, &first}) {
    mesh::run_worlds(static_cast<int>(cell->world()), [&](const mesh::World& world) {
      Trainee trainee(*cell, world, /*seed=*/4);  // other values, until they are loaded
      const CheckpointContent content = content_of(trainee, step + 1);
      (void)load_checkpoint(str(root, "/step-", step), content.model, content.optimizer);
      save(world, trainee, root, step + 1);
      if (cell == &first) after.add(content);
    });
    ++step;
  }
  ASSERT_EQ(before.tensors().size(), after.tensors().size());
  EXPECT_GT(before.tensors().size(), 50U);
  for (const auto& [name, tensor] : before.tensors())
    EXPECT_TRUE(at::equal(tensor, after.tensors().at(name))) << name;
}

TEST(Resharding, ThereAndBackChangesNoBit) {
  const std::vector<std::pair<MeshShape, MeshShape>> pairs{
      {{.dp_shard = 2}, {}},
      {{.dp_shard = 2}, {.tp = 2}},
      {{.dp_shard = 4}, {.dp_shard = 2, .tp = 2}},
      {{.tp = 2}, {.dp_replicate = 2}},
      {{.tp = 4}, {.dp_shard = 3}},
      {{.cp = 2}, {.dp_shard = 2, .ulysses = 2}},
      {{.ulysses = 2, .tp = 2}, {.dp_shard = 4}},
      {{.dp_replicate = 2, .dp_shard = 2}, {.cp = 2, .tp = 2}},
      {{.dp_shard = 2, .cp = 2, .tp = 2}, {.dp_shard = 8}},
      {{.dp_shard = 5}, {.tp = 4}},
      {{.dp_replicate = 2, .cp = 2, .ulysses = 2}, {.dp_shard = 2, .tp = 4}},
      {{}, {.dp_shard = 7}},
      {{.pp = 2}, {}},
      {{.pp = 4}, {.pp = 2, .dp_shard = 2}},
      {{.pp = 2, .tp = 2}, {.cp = 2, .tp = 2}},
      {{.dp_shard = 3}, {.pp = 2, .dp_shard = 2}}};
  for (const auto& [first, second] : pairs) expect_same_bits(laid_out(first), laid_out(second));
}

TEST(Resharding, CarriesAStateBetweenPlacements) {
  const Cell apart = laid_out({.dp_shard = 2}, MeshShape{.dp_shard = 3});
  expect_same_bits(apart, laid_out({}));
  expect_same_bits(apart, laid_out({.pp = 2, .tp = 2}));
  expect_same_bits(laid_out({.tp = 2}, MeshShape{.pp = 2}), apart);
}

}  // namespace
}  // namespace tributary::train
