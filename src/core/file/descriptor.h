#pragma once

#include <unistd.h>

#include "core/handle.h"

namespace tributary {

inline int close_descriptor(int descriptor) { return ::close(descriptor); }
/// An open file, socket or other descriptor.
using Descriptor = Handle<int, -1, close_descriptor>;

}  // namespace tributary
