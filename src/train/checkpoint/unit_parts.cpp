#include "train/checkpoint/unit_parts.h"

#include <ATen/ATen.h>

namespace tributary::train {

void append_parts(const parallel::Unit& unit, const parallel::Parameter& parameter,
                  const at::Tensor& buffer, const std::string& prefix,
                  std::vector<NamedTensor>& parts, std::int64_t begin) {
  const mesh::Mesh& mesh = *unit.layout().mesh;
  const mesh::Group* copies = parameter.split.copies;
  const bool is_written =
      mesh.at().dp_replicate == 0 && (copies == nullptr || copies->index() == 0);
  const auto add = [&](const Box& box, std::int64_t first) {
    parts.push_back({prefix + parameter.name,
                     buffer.narrow(0, first, *volume(box.lengths)).view(box.lengths),
                     TensorPart{parameter.shape, box, is_written}});
  };
  const std::vector<parallel::PlacedBox> boxes = unit.boxes_of(parameter);
  for (const auto& [box, first] : boxes) add(box, first - begin);
  if (boxes.empty()) {
    const std::vector<std::int64_t> nothing(parameter.shape.size(), 0);
    add({nothing, nothing}, 0);
  }
}

std::vector<NamedTensor> list_parameters(const model::Model& model, bool with_adapters) {
  std::vector<NamedTensor> list;
  for (const auto& unit : model.units()) {
    if (unit->is_adapter() && !with_adapters) continue;
    for (const auto& parameter : unit->parameters())
      append_parts(*unit, *parameter, unit->shard_value(), "", list);
  }
  return list;
}

}  // namespace tributary::train
