#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tributary::app {

/// Who asks. Messages name an argument as this caller writes it.
enum class Caller { kCommandLine, kPython };

/// `--attention-length` on the command line, `attention_length` in Python.
[[nodiscard]] inline std::string argument_name(Caller caller, std::string_view name) {
  if (caller == Caller::kPython) return std::string(name);
  std::string option = "--";
  for (const char letter : name) option += letter == '_' ? '-' : letter;
  return option;
}

/// The options that the user gave, and the rules that refuse those without an effect. A rule names
/// an option as the command line does (`--output`); its message names it as the caller does.
///
/// errors: each rule Fault::kInput naming the option, and the other one that makes it useless
class GivenOptions {
 public:
  GivenOptions() = default;  // none is given
  /// list: returns the names of the given options, and of positional arguments, when it is called
  explicit GivenOptions(std::function<std::vector<std::string>()> list,
                        Caller caller = Caller::kCommandLine)
      : list_(std::move(list)), caller_(caller) {}

  [[nodiscard]] bool has(const std::string& option) const;
  /// The option as the caller writes it: Python has `straggler_factor` for `--straggler-factor`,
  /// and `merge` for `--no-merge`, as in `merge=False`.
  [[nodiscard]] std::string name(const std::string& option) const;
  [[nodiscard]] Caller caller() const { return caller_; }

  /// Refuses these options, because `found` leaves them without an effect.
  void refuse(std::initializer_list<std::string> options, const std::string& found,
              const std::string& expected) const;
  /// Refuses every given option that is not in the list.
  void refuse_all_but(std::initializer_list<std::string> options, const std::string& found) const;
  /// Refuses these options where `other` was not given, without which they have no effect.
  void require(std::initializer_list<std::string> options, const std::string& other) const;

 private:
  std::function<std::vector<std::string>()> list_;
  Caller caller_ = Caller::kCommandLine;
};

}  // namespace tributary::app
