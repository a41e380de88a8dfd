#pragma once

#include <string>
#include <vector>

#include "model/model.h"
#include "train/checkpoint/checkpoint.h"

namespace tributary::train {

/// Appends the parts of a parameter that this rank has in `buffer`, which is laid out like its
/// unit's shard from its element `begin` on, under `prefix` and the parameter's name; one empty
/// part where it has none.
///
/// owns: the values are views of the buffer
void append_parts(const parallel::Unit& unit, const parallel::Parameter& parameter,
                  const at::Tensor& buffer, const std::string& prefix,
                  std::vector<NamedTensor>& parts, std::int64_t begin = 0);

/// The values of all parameters of a model, or of all but those of adapters.
[[nodiscard]] std::vector<NamedTensor> list_parameters(const model::Model& model,
                                                       bool with_adapters = true);

}  // namespace tributary::train
