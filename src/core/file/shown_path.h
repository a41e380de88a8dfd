#pragma once

#include <string>

namespace tributary {

/// A path for a message; a relative path is followed by the directory that it starts from.
[[nodiscard]] std::string shown_path(const std::string& path);

}  // namespace tributary
