#pragma once

namespace tributary::app {

/// Makes Error of C++ the class `tributary.Error` of Python, with its parts as attributes.
void register_error();

}  // namespace tributary::app
