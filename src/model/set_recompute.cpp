#include <algorithm>

#include "core/text.h"
#include "model/model.h"

namespace tributary::model {

void Model::set_recompute(std::span<const std::string> recompute,
                          std::span<const std::string> offload) {
  const auto lists = [](std::span<const std::string> names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  set_keep([&](std::string_view module) {
    const std::string name(module);
    if (lists(offload, name)) return parallel::Keep::kInputOnHost;
    if (lists(recompute, name)) return parallel::Keep::kInput;
    return lists(recompute, name + ".mlp") ? parallel::Keep::kAttention
                                           : parallel::Keep::kActivations;
  });
}

}  // namespace tributary::model
