#pragma once

#include <string>
#include <vector>

#include "config/family/model_config.h"
#include "config/run/run_config.h"
#include "model/model.h"

namespace tributary::model {

inline constexpr const char* kPeftConfigFile = "adapter_config.json";
inline constexpr const char* kPeftWeightsFile = "adapter_model.safetensors";

/// Whether an adapter is trained on, or only read: dropout acts only in training.
enum class AdapterUse { kTrained, kReadAlone };

/// The settings of the adapter that PEFT has written into `adapter.path`, in place of those given;
/// its targets are the names of its linear maps. A section without a path stays as it is.
///
/// errors: Fault::kInput for a form that is not trained here, for other tensors than those of
///         linear maps, and for keys of the section that say something else
[[nodiscard]] config::AdapterSection read_peft_section(const config::AdapterSection& adapter,
                                                       config::ModelFamily family, AdapterUse use);

/// Fills the adapters of a model from a directory of PEFT.
///
/// errors: Fault::kInput with ExitCode::kCheckpointRefused listing missing, unexpected and
///         mis-shaped tensors
void load_peft_adapter(Model& model, const std::string& directory);

/// The name that PEFT gives an adapter's parameter over the model of transformers.
[[nodiscard]] std::string peft_name(config::ModelFamily family, const std::string& parameter);

/// The text of adapter_config.json. `parameters` are the names of the adapters' parameters here,
/// `base` the model that the adapter belongs to.
[[nodiscard]] std::string write_peft_config(const config::AdapterSection& adapter,
                                            config::ModelFamily family,
                                            const std::vector<std::string>& parameters,
                                            const std::string& base);

}  // namespace tributary::model
