#pragma once

#include <string>
#include <string_view>

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

}  // namespace tributary::app
