#pragma once

namespace tributary::app {

/// Makes nanobind raise an Error of C++ as `tributary.Error`, with its parts as attributes.
void register_error();

}  // namespace tributary::app
