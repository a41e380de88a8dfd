#include "model/encoder/encoder.h"

namespace tributary::model {
namespace {

parallel::Unit& append(std::vector<std::unique_ptr<parallel::Unit>>& units,
                       const std::string& module, const std::string& name,
                       const parallel::Layout& layout) {
  units.push_back(
      std::make_unique<parallel::Unit>(module, module + "." + name, layout.with_whole_tokens()));
  return *units.back();
}

}  // namespace

parallel::Unit& EncoderPlace::add_projector(const std::string& module,
                                            const std::string& name) const {
  return append(*units, module, name, first_stage);
}

parallel::Unit& EncoderPlace::add_tower(const std::string& module, const std::string& name,
                                        std::int64_t layer) const {
  if (apart == nullptr) return append(*units, module, name, first_stage);
  return append(*units, module, name,
                apart->at_stage(apart->stages ? apart->stages->stage_of(layer) : 0));
}

}  // namespace tributary::model
