#include "mesh/meet_pairs.h"

#include <ATen/ATen.h>

namespace tributary::mesh {

void meet_pairs(const Group& group, std::span<const std::pair<int, int>> pairs,
                c10::Device device) {
  if (!device.is_cuda() || group.is_single()) return;
  const at::Tensor nothing = at::zeros({1}, at::TensorOptions(device));
  for (const auto& [from, to] : pairs) {
    if (group.index() == from) group.send(nothing, to, /*tag=*/0).wait();
    if (group.index() == to) group.receive(nothing, from, /*tag=*/0).wait();
  }
}

}  // namespace tributary::mesh
