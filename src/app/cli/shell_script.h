#pragma once

#include <span>
#include <string>
#include <vector>

#include "app/cli/verb.h"

namespace tributary::app {

/// What a shell may complete.
struct ShellWords {
  std::vector<VerbWords> verbs;
  std::vector<std::string> keys;  // of a configuration; an item of a list has the number 0
};

// Scripts that complete verbs, their options and, where a verb takes them, keys with `=` behind.

/// For bash 4.1 or newer.
[[nodiscard]] std::string bash_script(const ShellWords& words);
/// For zsh, in a file `_tributary` of its fpath.
[[nodiscard]] std::string zsh_script(const ShellWords& words);
/// For fish 3.
[[nodiscard]] std::string fish_script(const ShellWords& words);

}  // namespace tributary::app
