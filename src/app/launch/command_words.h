#pragma once

#include <string>

namespace tributary::app {

/// A word as a shell reads it back: in quotes where it would be read otherwise.
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

/// Remembers how this process was called; `main` gives the first word of its command line.
void remember_program(const std::string& called_as);

/// What to type before a verb to run it as this process was run: the program as it was called, and
/// for a rank of `tributary launch` that launcher with its options.
[[nodiscard]] std::string program_words();

/// The same for a verb that runs as one process, whether this is a rank or not.
[[nodiscard]] std::string own_program_words();

/// The variable by which a launcher tells its ranks what program_words() is.
inline constexpr const char* kCommandVariable = "TRIB_COMMAND";

}  // namespace tributary::app
