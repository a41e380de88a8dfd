#include "model/rotary_angles.h"

#include <vector>

#include <ATen/ATen.h>

namespace tributary::model {

at::Tensor rotary_angles(const config::BackboneConfig& config, const at::Tensor& position_ids) {
  const std::int64_t half = config.head_width / 2;
  const auto options = at::TensorOptions().device(position_ids.device()).dtype(at::kFloat);
  const at::Tensor exponents =
      at::arange(0, config.head_width, 2, options).div_(static_cast<double>(config.head_width));
  const at::Tensor frequencies = at::reciprocal(at::pow(config.rope_theta, exponents));
  if (config.mrope_section.empty())
    return position_ids.select(0, 0).to(at::kFloat).unsqueeze(1) * frequencies;

  std::vector<std::int64_t> axis_of_frequency;
  for (std::size_t axis = 0; axis < config.mrope_section.size(); ++axis)
    axis_of_frequency.insert(axis_of_frequency.end(),
                             static_cast<std::size_t>(config.mrope_section[axis]),
                             static_cast<std::int64_t>(axis));
  const at::Tensor axes =
      at::tensor(axis_of_frequency, at::kLong).narrow(0, 0, half).to(position_ids.device());
  return position_ids.to(at::kFloat).index_select(0, axes).t() * frequencies;
}

}  // namespace tributary::model
