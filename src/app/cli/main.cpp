#include "app/cli/verb.h"

int main(int argc, char** argv) { return tributary::app::run_command_line(argc, argv); }
