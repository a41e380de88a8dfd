#pragma once

#include <string_view>

namespace tributary {

/// Says whether the whole of `name` fits `pattern`: `*` is any text, `?` any one byte.
[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view name);

}  // namespace tributary
