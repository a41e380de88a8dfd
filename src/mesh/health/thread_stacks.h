#pragma once

#include <string>

namespace tributary::mesh {

/// Writes the stack of every thread of this process to a file, or to standard error when `path` is
/// empty: name, what the kernel says it waits in, and the frames as `library(symbol+offset)`. A
/// thread that does not answer a signal within 0.2 s is listed without frames.
///
/// errors: none; a file that cannot be opened is said on standard error, which gets the stacks
void write_thread_stacks(const std::string& path, const std::string& headline);

/// Loads what unwinding needs, so that it works when memory is short. Call it once, early.
void prepare_thread_stacks();

}  // namespace tributary::mesh
