#pragma once

#include <string>

#include "config/artifact/module_graph.h"
#include "config/reading/json_object.h"

namespace tributary::config {

/// Reads the backbone from the keys of a text decoder, layer by layer, because dense blocks may lie
/// among blocks with experts, and windows among full attention. `decoder` is the model_type of the
/// decoder's class; a head that is `tied` has no weight of its own.
///
/// errors: Fault::kInput naming file and key: an unknown decoder, a size that is missing
/// source: docs/theory/numerics.md, "Text decoders" and "Experts"; transformers 5 for missing keys
[[nodiscard]] ModuleNode backbone_of(const JsonObject& text, const std::string& decoder, bool tied);

}  // namespace tributary::config
