// One rank of the comparison of many ranks with one; run_matrix.py starts the others.
//
// usage: equality_matrix [--all]: runs every cell whose mesh has as many ranks as there are
// processes; rank 0 prints a line for each and all return 1 when one deviates too far.
#include <cstdio>
#include <string_view>

#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "core/text.h"
#include "mesh/launch/launch.h"
#include "mesh/launch/store.h"
#include "tests/train/equality/cell.h"

int main(int count, char** arguments) {
  using namespace tributary;
  at::set_num_threads(1);
  const bool all = count > 1 && std::string_view(arguments[1]) == "--all";
  const mesh::Launch launch = mesh::read_launch();
  const auto store = mesh::connect_store(launch, {.timeout_seconds = 60});
  bool good = true;
  int number = 0;
  for (const train::Cell& cell : train::list_cells(all)) {
    if (cell.world() != launch.world) continue;
    const mesh::World world(launch.rank, launch.world, store,
                            {.timeout_seconds = 60, .interface = "lo", .shares_memory = true},
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
