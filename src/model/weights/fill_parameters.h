#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "model/model.h"

namespace tributary::model {

/// Called while parameters are filled, at least once for each; empty: nobody wants to know.
using OnProgress = std::function<void()>;

/// `initialize` and `load_weights` of model.h, for a caller whose watch waits for progress.
void initialize(Model& model, std::uint64_t seed, const OnProgress& on_progress);
void load_weights(Model& model, const std::string& directory, const OnProgress& on_progress);

}  // namespace tributary::model
