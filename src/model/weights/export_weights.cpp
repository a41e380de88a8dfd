#include <map>

#include <ATen/ATen.h>

#include "core/file/weight_directory.h"
#include "model/model.h"
#include "ops/stored_dtype.h"

namespace tributary::model {

void export_weights(const Model& model, const std::string& source_directory,
                    const std::string& directory) {
  HuggingFaceExport content{.directory = directory,
                            .source_directory = source_directory,
                            .tensors = {},
                            .give = {},
                            .prefix = model.config().tensor_prefix};
  std::map<std::string, const parallel::Parameter*> by_name;
  for (const auto& unit : model.units()) {
    for (const auto& parameter : unit->parameters()) {
      content.tensors.push_back({.name = parameter->name,
                                 .dtype = ops::stored_dtype(parameter->value.scalar_type()),
                                 .shape = parameter->shape});
      by_name[parameter->name] = parameter.get();
    }
  }
  content.give = [&](const TensorSpec& tensor, const auto& append) {
    const at::Tensor host = by_name.at(tensor.name)->value.detach().to(at::kCPU).contiguous();
    append({static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()});
  };
  write_hugging_face_directory(real_file_system(), content);
}

}  // namespace tributary::model
