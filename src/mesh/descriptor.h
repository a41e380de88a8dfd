#pragma once

#include <unistd.h>

#include "core/handle.h"

namespace tributary::mesh {

inline int close_descriptor(int descriptor) { return ::close(descriptor); }
using Descriptor = Handle<int, -1, close_descriptor>;

}  // namespace tributary::mesh
