#pragma once

#include <memory>

#include "core/json.h"

namespace tributary::app {

/// The answer of a verb to a program: under --json one object on standard output, and nothing else
/// there. What the verb prints for people goes to standard error then.
///
/// owns: copies share their state
class Answer {
 public:
  Answer();

  /// Whether --json was given; the parser sets it.
  [[nodiscard]] bool& is_asked() const;
  /// Keeps standard output for the answer: what the verb, its libraries and its processes print
  /// there goes to standard error from now on.
  ///
  /// errors: Fault::kResource when standard output is closed
  void take_output() const;
  /// Prints the object where it was asked for; a verb gives one answer.
  ///
  /// errors: Fault::kResource when it cannot be written, but not when its reader is gone
  void give(const Json& answer) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tributary::app
