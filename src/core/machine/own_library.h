#pragma once

#include <string>

#include "core/result.h"

namespace tributary {

/// The address of a function in a shared library of this project, which is loaded and stays. It
/// lies beside the program; benchmarks and tests lie elsewhere, and know the path of libraries.
///
/// errors: Refusal (`library`) why there is none
[[nodiscard]] Result<void*> find_in_own_library(const std::string& library,
                                                const std::string& function);

}  // namespace tributary
