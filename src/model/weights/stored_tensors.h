#pragma once

#include <map>
#include <string>

#include <ATen/core/Tensor.h>

#include "core/file/safetensors.h"

namespace tributary::model {

/// Views the bytes of a tensor in a mapped file, without a copy where they lie aligned.
/// owns: the view ends with the mapping
[[nodiscard]] at::Tensor view_stored(const MappedSafetensors& file, const StoredTensor& tensor);

/// Reads all tensors of a file into memory of their own.
[[nodiscard]] std::map<std::string, at::Tensor> read_tensors(const std::string& path);
/// Writes tensors of any device into one file.
void write_tensors(const std::string& path, const std::map<std::string, at::Tensor>& tensors);

}  // namespace tributary::model
