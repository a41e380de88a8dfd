#pragma once

#include <string>

namespace tributary::app {

/// A word as one types it in a shell, in quotes where it needs them.
[[nodiscard]] inline std::string shell_word(const std::string& word) {
  const bool plain = word.find_first_not_of(
                         "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                         "_-+=./,:@%") == std::string::npos;
  if (plain && !word.empty()) return word;
  std::string text = "'";
  for (const char letter : word) {
    if (letter == '\'')
      text += "'\\''";
    else
      text += letter;
  }
  return text + "'";
}

/// Remembers the first word of the command line of this process, which `main` passes.
void remember_program(const std::string& called_as);

/// The words to type before a verb to run it as this process was run: the program, and for a rank
/// of `tributary launch` also the launcher with its options.
[[nodiscard]] std::string program_words();

/// The words to type before a verb that runs as one process: the program without a launcher.
[[nodiscard]] std::string own_program_words();

}  // namespace tributary::app
