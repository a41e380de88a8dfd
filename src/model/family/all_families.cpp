#include "model/family/all_families.h"

#include <algorithm>

#include "core/error.h"

namespace tributary::model {

const std::vector<Family>& all_families() {
  static const std::vector<Family> families{
      {.family = config::ModelFamily::kQwen2, .name = "qwen2", .make = make_text_model},
      {.family = config::ModelFamily::kQwen3, .name = "qwen3", .make = make_text_model},
      {.family = config::ModelFamily::kLlama, .name = "llama", .make = make_text_model},
      {.family = config::ModelFamily::kQwen2Vl,
       .name = "qwen2_vl",
       .make = make_qwen_vl,
       .prefixes = {{"model.visual.", "visual."}, {"model.language_model.", "model."}}},
      {.family = config::ModelFamily::kQwen2_5Vl,
       .name = "qwen2_5_vl",
       .make = make_qwen_vl,
       .prefixes = {{"model.visual.", "visual."}, {"model.language_model.", "model."}}},
      {.family = config::ModelFamily::kQwen3Vl, .name = "qwen3_vl", .make = make_qwen_vl},
  };
  return families;
}

const Family& find_family(config::ModelFamily family) {
  const auto found = std::find_if(all_families().begin(), all_families().end(),
                                  [&](const Family& entry) { return entry.family == family; });
  TRIB_CHECK(found != all_families().end(), .what = "model: family without an entry in the list",
             .found = str("family ", static_cast<int>(family)));
  return *found;
}

std::string released_name(const Family& family, const std::string& name) {
  for (const auto& [prefix, released] : family.prefixes)
    if (name.starts_with(prefix)) return released + name.substr(prefix.size());
  return name;
}

std::string transformers_name(const Family& family, const std::string& name) {
  for (const auto& [prefix, released] : family.prefixes)
    if (name.starts_with(released)) return prefix + name.substr(released.size());
  return name;
}

std::unique_ptr<Model> make_model(const config::ModelConfig& config, const ModelLayout& layouts) {
  std::unique_ptr<Model> model = find_family(config.family).make(config, layouts);
  model->take_adapters();
  return model;
}

}  // namespace tributary::model
