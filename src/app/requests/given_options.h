#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tributary::app {

/// Who asks: messages name an argument as the caller wrote it.
enum class Caller { kCommandLine, kPython };

/// `--attention-length` on the command line, `attention_length` in Python.
[[nodiscard]] inline std::string argument_name(Caller caller, std::string_view name) {
  if (caller == Caller::kPython) return std::string(name);
  std::string option = "--";
  for (const char letter : name) option += letter == '_' ? '-' : letter;
  return option;
}

/// The options that the user gave, and the one rule about those that would count for nothing: they
/// are refused by name. Rules name options as the command line does, messages as the caller does.
///
/// errors: of all Fault::kInput naming the option and what stands beside it
class GivenOptions {
 public:
  GivenOptions() = default;  // none is given
  /// `list` names them when it is asked, as in "--output"; those without dashes too.
  explicit GivenOptions(std::function<std::vector<std::string>()> list,
                        Caller caller = Caller::kCommandLine)
      : list_(std::move(list)), caller_(caller) {}

  [[nodiscard]] bool has(const std::string& option) const;
  /// `--straggler-factor` on the command line, `straggler_factor` in Python; of `--no-merge`, which
  /// Python has as `merge=False`, `merge`.
  [[nodiscard]] std::string name(const std::string& option) const;
  [[nodiscard]] Caller caller() const { return caller_; }

  /// Refuses these options beside what is `found`.
  void refuse(std::initializer_list<std::string> options, const std::string& found,
              const std::string& expected) const;
  /// Refuses all others.
  void refuse_all_but(std::initializer_list<std::string> options, const std::string& found) const;
  /// Refuses options that count with another one alone.
  void require(std::initializer_list<std::string> options, const std::string& other) const;

 private:
  std::function<std::vector<std::string>()> list_;
  Caller caller_ = Caller::kCommandLine;
};

}  // namespace tributary::app
