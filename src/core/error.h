#pragma once

#include <memory>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>

#include "core/exit_code.h"
#include "core/text.h"

namespace tributary {

/// Who acts on an error: the user, the operator of the machine, or the authors.
enum class Fault { kInput, kResource, kBug };

/// The parts of a message, in the order in which they are printed; empty ones are left out.
struct ErrorParts {
  std::string what = {};  // `room: fixed words`, so that grep finds the place
  std::string where = {};
  std::string found = {};
  std::string expected = {};
  std::string fix = {};
  std::optional<ExitCode> exit = {};  // when it is not the default of the fault
};

/// The one exception of Tributary. Only `app` catches it.
class Error : public std::runtime_error {
 public:
  Error(Fault fault, const ErrorParts& parts, std::source_location raised_at);

  [[nodiscard]] Fault fault() const { return fault_; }
  [[nodiscard]] ExitCode exit_code() const { return exit_code_; }
  /// The parts that the text of what() is made of.
  [[nodiscard]] const ErrorParts& parts() const { return *parts_; }
  /// The same error under another exit code, where a caller knows better what it means.
  [[nodiscard]] Error with_exit(ExitCode exit) const {
    Error changed = *this;
    changed.exit_code_ = exit;
    return changed;
  }

 private:
  Fault fault_;
  ExitCode exit_code_;
  std::shared_ptr<const ErrorParts> parts_;  // shared, so that copies cannot fail
};

[[noreturn]] void raise(Fault fault, const ErrorParts& parts,
                        std::source_location raised_at = std::source_location::current());

/// Shortens text found in an input for a message: unprintable bytes escaped, at most 200 bytes.
[[nodiscard]] std::string escaped(std::string_view found);

}  // namespace tributary

/// Checks what the user gave; the text is built only on failure.
#define TRIB_REQUIRE(condition, ...)                                                        \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      ::tributary::raise(::tributary::Fault::kInput, ::tributary::ErrorParts{__VA_ARGS__}); \
  } while (false)

/// Checks an invariant of our own; on in every build.
#define TRIB_CHECK(condition, ...)                                                        \
  do {                                                                                    \
    if (!(condition)) [[unlikely]]                                                        \
      ::tributary::raise(::tributary::Fault::kBug, ::tributary::ErrorParts{__VA_ARGS__}); \
  } while (false)

#define TRIB_RAISE(fault, ...) ::tributary::raise(fault, ::tributary::ErrorParts{__VA_ARGS__})
