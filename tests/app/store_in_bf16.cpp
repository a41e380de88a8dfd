// Writes the newest checkpoint of a run again with a model in bf16, as a CUDA run has it:
// store_in_bf16 RUN_DIR NEW_RUN_DIR.
#include <ATen/ATen.h>

#include "ops/stored_dtype.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_reader.h"

int main(int argc, char** argv) {
  using namespace tributary;
  if (argc != 3) return 2;
  const std::string source = train::find_checkpoint(argv[1]);
  train::CheckpointContent content;
  static_cast<train::CheckpointFacts&>(content) = train::read_checkpoint_facts(source);
  const std::string folder = "model/";
  train::CheckpointReader reader(source);
  for (const auto& [name, tensor] : reader.manifest().tensors)
    if (name.starts_with(folder))
      content.model.push_back(
          {name.substr(folder.size()),
           at::empty(tensor.shape, at::TensorOptions().dtype(ops::scalar_type(tensor.dtype)))});
  (void)train::load_model(source, content.model);
  for (train::NamedTensor& tensor : content.model) tensor.value = tensor.value.to(at::kBFloat16);
  train::CheckpointWriter writer({.root = std::string(argv[2]) + "/checkpoints"});
  writer.save(content);
  writer.finish();
}
