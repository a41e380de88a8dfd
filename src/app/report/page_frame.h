#pragma once

#include <string>

namespace tributary::app {

/// A page up to its body: title, style, and the policy that makes the browser refuse every request.
[[nodiscard]] std::string open_page(const std::string& title);

}  // namespace tributary::app
