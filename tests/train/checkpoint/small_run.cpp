#include "tests/train/checkpoint/small_run.h"

#include <filesystem>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "core/error.h"

namespace tributary::train {
namespace {

/// Values that differ from tensor to tensor and from step to step.
at::Tensor numbers(std::vector<std::int64_t> shape, at::ScalarType dtype, std::int64_t step,
                   int salt) {
  const std::int64_t elements = c10::multiply_integers(shape);
  return (at::arange(elements, at::kDouble) * 0.37 + static_cast<double>(step * 11 + salt))
      .sin()
      .to(dtype)
      .reshape(shape);
}

void expect_same(std::span<const NamedTensor> loaded, std::span<const NamedTensor> expected) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(at::equal(loaded[i].value, expected[i].value)) << expected[i].name;
}

std::vector<NamedTensor> empty_like(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> empty;
  for (const NamedTensor& tensor : tensors)
    empty.push_back({tensor.name, at::zeros_like(tensor.value)});
  return empty;
}

}  // namespace

CheckpointContent small_run(std::int64_t step) {
  CheckpointContent content;
  content.step = step;
  content.config = "run: {seed: 7}\n";
  content.model_directory = "/models/small";
  content.identity = {{"run.seed", "7"}, {"data.digest", "9f2c"}};
  content.state = R"({"loader":{"next_index":)" + std::to_string(32 * step) + R"(},"rate":0.1})";
  content.generators = {{"cpu", std::string(5000, static_cast<char>('a' + step % 20))}};
  content.model = {{"model.embed_tokens.weight", numbers({40, 24}, at::kFloat, step, 1)},
                   {"model.layers.0.mlp.up_proj.weight", numbers({48, 24}, at::kFloat, step, 2)},
                   {"model.norm.weight", numbers({24}, at::kBFloat16, step, 3)}};
  for (const NamedTensor& tensor : std::vector<NamedTensor>(content.model)) {
    const std::vector<std::int64_t> shape = tensor.value.sizes().vec();
    content.optimizer.push_back({"exp_avg." + tensor.name, numbers(shape, at::kFloat, step, 4)});
    content.optimizer.push_back({"exp_avg_sq." + tensor.name, numbers(shape, at::kFloat, step, 5)});
    content.optimizer.push_back({"step." + tensor.name, at::full({}, step, at::kLong)});
  }
  return content;
}

std::string scratch_directory() {
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string path = testing::TempDir() + test->test_suite_name() + "." + test->name();
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

std::int64_t load_and_compare(const std::string& directory, FileSystem& files) {
  const CheckpointFacts facts = read_checkpoint_facts(directory, files);
  const CheckpointContent expected = small_run(facts.step);
  EXPECT_EQ(facts.config, expected.config);
  EXPECT_EQ(facts.identity, expected.identity);
  EXPECT_EQ(facts.state, expected.state);
  EXPECT_EQ(facts.generators, expected.generators);
  const std::vector<NamedTensor> model = empty_like(expected.model);
  const std::vector<NamedTensor> optimizer = empty_like(expected.optimizer);
  (void)load_checkpoint(directory, model, optimizer, Verify::kFull, files);
  expect_same(model, expected.model);
  expect_same(optimizer, expected.optimizer);
  return facts.step;
}

std::string message_of(const std::function<void()>& action, ExitCode expected) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), expected) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was raised";
  return "";
}

}  // namespace tributary::train
