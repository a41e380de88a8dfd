// One rank that fills a model from the safetensors of a directory; load_memory.py starts the ranks.
//
// usage: load_probe MODEL_DIRECTORY: prints the most memory that loading took, bytes, and the bytes
// of its shard.
#include <cstdio>

#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "config/family/model_config.h"
#include "mesh/launch/launch.h"
#include "mesh/launch/store.h"
#include "model/model.h"
#include "train/metrics/step_metrics.h"
#include "train/start/ranks.h"

int main(int count, char** arguments) {
  using namespace tributary;
  if (count != 2) return 2;
  at::set_num_threads(1);
  const mesh::Launch launch = mesh::read_launch();
  const auto store = mesh::connect_store(launch, {.timeout_seconds = 60});
  const mesh::World world(launch.rank, launch.world, store,
                          {.timeout_seconds = 60, .interface = "lo", .shares_memory = true});
  const mesh::Mesh mesh({.dp_shard = launch.world}, world);
  const config::ModelConfig config = config::read_model_config(arguments[1]);
  const auto model = model::make_model(config, train::lay_out_on(mesh, {}));
  const std::int64_t before = train::peak_process_bytes();
  std::int64_t shard = 0;
  for (const auto& unit : model->units()) {
    unit->materialize(at::kCPU, at::kFloat, /*trainable=*/false);
    shard += static_cast<std::int64_t>(unit->shard_value().nbytes());
  }
  model::load_weights(*model, arguments[1]);
  std::printf("%ld %ld\n", static_cast<long>(train::peak_process_bytes() - before),
              static_cast<long>(shard));
  return 0;
}
