#include <iostream>

#include "app/cli/commands.h"
#include "app/engine/engine.h"

namespace tributary::app {

Run declare_doctor(Verb& verb) {
  verb.example("tributary doctor");
  return [] {
    const EngineFacts facts = load_engine().facts();
    std::cout << "torch    " << facts.torch_version << "\nthreads  " << facts.threads
              << "\ncuda     " << facts.cuda << "\n";
    return ExitCode::kDone;
  };
}

}  // namespace tributary::app
