#pragma once

#include <string>

#include "config/artifact/module_graph.h"
#include "config/reading/json_object.h"

namespace tributary::config {

/// The backbone by the keys of a text decoder, each layer in its place: dense blocks among those
/// with experts, windows among full attention. `root` is the whole model, whose head may be tied;
/// `decoder` the model_type of the decoder's class.
///
/// errors: Fault::kInput naming file and key: a decoder that is not known, a size that is missing
/// source: docs/theory/numerics.md, "Text decoders" and "Experts"; the
///         classes of transformers 5 for what a missing key means
[[nodiscard]] ModuleNode backbone_of(const JsonObject& root, const JsonObject& text,
                                     const std::string& decoder);

}  // namespace tributary::config
