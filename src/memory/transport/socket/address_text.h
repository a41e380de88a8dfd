#pragma once

#include <string>

namespace tributary::memory {

/// Names the other end of a socket for messages: `10.0.0.7:51122`, `user 1000, process 4711`.
[[nodiscard]] std::string address_text(int socket);

}  // namespace tributary::memory
