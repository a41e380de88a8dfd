#include "app/launch/command_words.h"

#include <cstdlib>

#include "core/launch_variables.h"

namespace tributary::app {
namespace {

std::string& called_as() {
  static std::string program = "tributary";
  return program;
}

}  // namespace

void remember_program(const std::string& program) { called_as() = program; }

std::string program_words() {
  const char* launched = std::getenv(kCommandVariable);
  return launched != nullptr ? launched : shell_word(called_as());
}

std::string own_program_words() {
  const std::string words = program_words();
  return std::getenv(kCommandVariable) == nullptr ? words
                                                  : words.substr(0, words.find(" launch -n "));
}

}  // namespace tributary::app
