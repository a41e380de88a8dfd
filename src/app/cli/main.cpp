#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "app/cli/verb.h"
#include "app/launch/command_words.h"

int main(int argc, char** argv) {
  if (argc > 0) tributary::app::remember_program(argv[0]);
  const int code = tributary::app::run_command_line(argc, argv);
  if (code == 0) return 0;
  // After a failure a thread may still wait inside libtorch, and exit() would wait for that thread.
  std::cout.flush();
  std::cerr.flush();
  (void)std::fflush(nullptr);
  std::quick_exit(code);
}
