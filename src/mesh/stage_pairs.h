#pragma once

#include <utility>
#include <vector>

namespace tributary::mesh {

/// The pairs of pp coordinates between which messages pass, whatever the order of the schedule, in
/// one order on all ranks: neighbours, and the last one with the first of the backbone, where the
/// next round of its virtual stages begins.
[[nodiscard]] std::vector<std::pair<int, int>> stage_pairs(int stages, int first_of_backbone);

}  // namespace tributary::mesh
