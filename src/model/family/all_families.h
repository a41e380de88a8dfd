#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/family/model_config.h"
#include "model/model.h"

namespace tributary::model {

/// How one family is built and what its files call the parameters.
struct Family {
  config::ModelFamily family;
  std::string name;
  std::unique_ptr<Model> (*make)(const config::ModelConfig& config, const ModelLayout& layouts);
  /// Prefixes of transformers 5.x and the released ones that replace them; the first that fits.
  std::vector<std::pair<std::string, std::string>> prefixes = {};
};

/// All families that a model can be built for.
[[nodiscard]] const std::vector<Family>& all_families();
/// errors: Fault::kBug when the list lacks it
[[nodiscard]] const Family& find_family(config::ModelFamily family);

/// The name in released checkpoints of a tensor in a file of either layout.
[[nodiscard]] std::string released_name(const Family& family, const std::string& name);
/// The other way: the name in transformers 5.x of a parameter.
[[nodiscard]] std::string transformers_name(const Family& family, const std::string& name);

// One function a family, each in `<family>.cpp`.
[[nodiscard]] std::unique_ptr<Model> make_text_model(const config::ModelConfig& config,
                                                     const ModelLayout& layouts);
[[nodiscard]] std::unique_ptr<Model> make_qwen_vl(const config::ModelConfig& config,
                                                  const ModelLayout& layouts);
[[nodiscard]] std::unique_ptr<Model> make_internvl(const config::ModelConfig& config,
                                                   const ModelLayout& layouts);
[[nodiscard]] std::unique_ptr<Model> make_internvl_chat(const config::ModelConfig& config,
                                                        const ModelLayout& layouts);
[[nodiscard]] std::unique_ptr<Model> make_llava_onevision(const config::ModelConfig& config,
                                                          const ModelLayout& layouts);
[[nodiscard]] std::unique_ptr<Model> make_qwen2_5_omni_thinker(const config::ModelConfig& config,
                                                               const ModelLayout& layouts);
[[nodiscard]] std::unique_ptr<Model> make_qwen2_audio(const config::ModelConfig& config,
                                                      const ModelLayout& layouts);

}  // namespace tributary::model
