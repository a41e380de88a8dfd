#pragma once

#include <string>

#include <c10/util/Exception.h>

#include "app/engine/engine.h"
#include "core/error.h"

namespace tributary::app {

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
      TRIB_RAISE(Fault::kResource, .what = "app: out of memory", .found = escaped(text),
                 .fix = kOutOfMemoryFix);
    TRIB_RAISE(Fault::kBug, .what = "app: libtorch refused a call", .found = escaped(text));
  }
}

/// Guarded<kVerb>::call runs kVerb guarded; the engine's table holds these.
template <auto kVerb>
struct Guarded;
template <class Result, class... Arguments, Result (*kVerb)(Arguments...)>
struct Guarded<kVerb> {
  static Result call(Arguments... arguments) {
    return guarded([&] { return kVerb(arguments...); });
  }
};

}  // namespace tributary::app
