// Saves the weights of a Hugging Face directory as step 7 of a run, with optimizer state:
// checkpoint_probe MODEL_DIR RUN_DIR. checkpoint_live.py looks at what it wrote.
#include <cstring>
#include <filesystem>

#include <ATen/ATen.h>

#include "core/file/weight_directory.h"
#include "ops/stored_dtype.h"
#include "train/checkpoint/checkpoint.h"

int main(int argc, char** argv) {
  using namespace tributary;
  if (argc != 3) return 2;
  const WeightDirectory weights(argv[1]);
  train::CheckpointContent content;
  content.step = 7;
  content.config = "run: {seed: 1}\n";
  content.model_directory = std::filesystem::absolute(argv[1]);
  content.identity = {{"run.seed", "1"}};
  content.state = R"({"loader": {"next_index": 224}})";
  content.generators = {{"cpu", "generator"}};
  for (const auto& [name, place] : weights.tensors()) {
    const at::Tensor value = at::empty(
        place.tensor->shape, at::TensorOptions().dtype(ops::scalar_type(place.tensor->dtype)));
    std::memcpy(value.data_ptr(), place.bytes().data(), value.nbytes());
    content.model.push_back({name, value});
    content.optimizer.push_back({"exp_avg." + name, at::full_like(value, 0.5)});
    content.optimizer.push_back({"step." + name, at::full({}, 7, at::kLong)});
  }
  train::CheckpointWriter writer({.root = std::string(argv[2]) + "/checkpoints"});
  writer.save(content, 0.75);
  writer.finish();
}
