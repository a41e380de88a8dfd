#pragma once

#include <string>

#include <c10/util/Exception.h>

#include "config/run/run_config.h"
#include "core/error.h"

namespace tributary::train {

/// Runs `body`, and turns an exception of libtorch into an Error of one line without a stack trace.
///
/// errors: Fault::kResource when libtorch could not allocate, Fault::kBug for its other exceptions;
///         exceptions of others pass through
template <class Body>
auto guarded(const Body& body) {
  try {
    return body();
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (text.find("llocate") != std::string::npos)
      TRIB_RAISE(Fault::kResource, .what = "train: out of memory", .found = escaped(text),
                 .fix = config::kOutOfMemoryFix);
    TRIB_RAISE(Fault::kBug, .what = "train: libtorch refused a call", .found = escaped(text));
  }
}

}  // namespace tributary::train
