#include "model/weights/stored_tensors.h"

#include <bit>
#include <cstring>
#include <vector>

#include <ATen/ATen.h>

#include "ops/stored_dtype.h"

namespace tributary::model {
at::Tensor view_stored(const MappedSafetensors& file, const StoredTensor& tensor) {
  const std::span<const std::byte> bytes = file.bytes(tensor);
  const auto options = at::TensorOptions().dtype(ops::scalar_type(tensor.dtype));
  const auto address = std::bit_cast<std::uintptr_t>(bytes.data());
  if (address % element_bytes(tensor.dtype) == 0) {
    // from_blob takes a writable pointer; the view is only read.
    return at::from_blob(const_cast<std::byte*>(bytes.data()), tensor.shape, options);
  }
  at::Tensor copy = at::empty(tensor.shape, options);
  if (!bytes.empty()) std::memcpy(copy.mutable_data_ptr(), bytes.data(), bytes.size());
  return copy;
}

std::map<std::string, at::Tensor> read_tensors(const std::string& path) {
  const MappedSafetensors file(path);
  std::map<std::string, at::Tensor> tensors;
  for (const StoredTensor& tensor : file.header().tensors)
    tensors[tensor.name] = view_stored(file, tensor).clone();
  return tensors;
}

void write_tensors(const std::string& path, const std::map<std::string, at::Tensor>& tensors) {
  std::vector<at::Tensor> kept;
  std::vector<TensorBytes> list;
  for (const auto& [name, tensor] : tensors) {
    kept.push_back(tensor.detach().to(at::kCPU).contiguous());
    const at::Tensor& host = kept.back();
    TensorBytes entry;
    entry.name = name;
    entry.dtype = ops::stored_dtype(host.scalar_type());
    entry.shape = host.sizes().vec();
    entry.data = {static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()};
    list.push_back(std::move(entry));
  }
  write_safetensors(real_file_system(), path, list);
}

}  // namespace tributary::model
