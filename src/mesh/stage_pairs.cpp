#include "mesh/stage_pairs.h"

namespace tributary::mesh {

std::vector<std::pair<int, int>> stage_pairs(int stages, int first_of_backbone) {
  std::vector<std::pair<int, int>> pairs;
  for (int stage = 0; stage + 1 < stages; ++stage) pairs.emplace_back(stage, stage + 1);
  if (first_of_backbone + 2 < stages) pairs.emplace_back(stages - 1, first_of_backbone);
  return pairs;
}

}  // namespace tributary::mesh
