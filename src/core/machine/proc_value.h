#pragma once

#include <string>

namespace tributary {

/// The value of the first line `key : value` in a file of /proc; empty where there is no such line.
[[nodiscard]] std::string proc_value(const std::string& file, const std::string& key);

}  // namespace tributary
