// One rank of the comparison of many ranks with one; run_matrix.py starts the others.
//
// usage: equality_matrix [--all] [--only TEXT] [--device cuda]: runs every cell whose mesh has as
// many ranks as there are processes, or those of them with TEXT in their name; rank 0 prints a line
// for each and all return 1 when one deviates too far. On CUDA the ranks share a device, their
// tensors travel through the host, and the one rank that they are compared with computes on the
// CPU. equality_matrix --list [--all] runs nothing and prints the ranks and the name of each cell.
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "core/text.h"
#include "mesh/device.h"
#include "mesh/launch/launch.h"
#include "mesh/launch/store.h"
#include "tests/train/equality/cell.h"

int main(int count, char** arguments) {
  using namespace tributary;
  at::set_num_threads(1);
  const std::vector<std::string_view> words(arguments + 1, arguments + count);
  const bool all = std::ranges::count(words, "--all") > 0;
  const auto value_of = [&](std::string_view option, std::string otherwise) {
    const auto named = std::ranges::find(words, option);
    return words.end() - named > 1 ? std::string(*std::next(named)) : std::move(otherwise);
  };
  if (std::ranges::count(words, "--list") > 0) {
    for (const train::Cell& cell : train::list_cells(all))
      std::printf("%d | %s\n", static_cast<int>(cell.world()), cell.name().c_str());
    return 0;
  }
  const std::string device = value_of("--device", "cpu");
  const std::string only = value_of("--only", "");
  const mesh::Launch launch = mesh::read_launch();
  const auto store = mesh::connect_store(launch, {.timeout_seconds = 60});
  bool good = true;
  int number = 0;
  for (const train::Cell& cell : train::list_cells(all)) {
    if (cell.world() != launch.world || cell.name().find(only) == std::string::npos) continue;
    const mesh::World world(launch.rank, launch.world, store,
                            {.device = mesh::open_device(device, launch.local_rank),
                             .is_through_host = true,
                             .timeout_seconds = 60,
                             .interface = "lo",
                             .shares_memory = true},
                            str("cell/", number++));
    const train::Deviation worst = train::run_cell(world, cell);
    const bool is_equal = worst.loss <= 1e-5 && worst.gradient <= 1e-4;
    good = good && is_equal;
    if (launch.rank == 0)
      std::printf("%s | %s | %.1e | %.1e | %s\n", is_equal ? "equal" : "DIFFERS",
                  cell.name().c_str(), worst.loss, worst.gradient, worst.parameter.c_str());
    std::fflush(stdout);
    world.meet();  // none leaves before the last has come
  }
  if (launch.rank == 0) std::printf("%d cells on %d processes\n", number, launch.world);
  return good && number > 0 ? 0 : 1;
}
