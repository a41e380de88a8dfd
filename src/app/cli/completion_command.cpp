#include <algorithm>
#include <iostream>
#include <memory>

#include "app/cli/commands.h"
#include "app/cli/shell_script.h"
#include "config/run/run_keys.h"
#include "core/error.h"

namespace tributary::app {
namespace {

/// The keys of a configuration as they are typed: the first item of a list has the number 0.
std::vector<std::string> typed_keys() {
  std::vector<std::string> keys;
  for (const config::Key& key : config::all_keys()) {
    std::string path = key.path;
    if (const std::size_t list = path.find("[]"); list != std::string::npos)
      path.replace(list, 2, ".0");
    keys.push_back(std::move(path));
  }
  return keys;
}

}  // namespace

Run declare_completion(Verb& verb) {
  const auto shell = std::make_shared<std::string>();
  verb.positional("SHELL", *shell, "bash, zsh or fish");
  verb.example(
      "tributary completion bash > ~/.local/share/bash-completion/completions/tributary\n"
      "  tributary completion zsh > ~/.zfunc/_tributary\n"
      "  tributary completion fish > ~/.config/fish/completions/tributary.fish");
  verb.note(
      "In this shell alone: source <(tributary completion bash). Of zsh, ~/.zfunc must be in fpath "
      "before\ncompinit: fpath=(~/.zfunc $fpath); autoload -Uz compinit; compinit");
  return [shell] {
    const ShellWords words{.verbs = list_verb_words(), .keys = typed_keys()};
    if (*shell == "bash") {
      std::cout << bash_script(words);
    } else if (*shell == "zsh") {
      std::cout << zsh_script(words);
    } else {
      TRIB_REQUIRE(*shell == "fish", .what = "app: no script for this shell", .where = "SHELL",
                   .found = escaped(*shell), .expected = "bash, zsh or fish");
      std::cout << fish_script(words);
    }
    return ExitCode::kDone;
  };
}

}  // namespace tributary::app
