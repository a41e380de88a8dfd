#include <atomic>
#include <csignal>
#include <iostream>
#include <unistd.h>

#include "app/chat/terminal_chat.h"
#include "app/cli/answer_options.h"
#include "app/cli/commands.h"
#include "app/engine/engine.h"

namespace tributary::app {
namespace {

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

/// Ctrl-C ends an answer; between answers it ends the chat, because it also ends the read of a
/// line.
void take_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = true; };
  sigaction(SIGINT, &action, nullptr);
}

}  // namespace

Run declare_chat(Verb& verb) {
  const auto given = std::make_shared<AnswerOptions>();
  declare_model(verb, *given);
  verb.option("--max-new-tokens", given->max_new_tokens,
              "Longest answer [tokens]; 0: 1024, as far as the context reaches");
  declare_sampling(verb, *given);
  verb.example("tributary chat runs/demo");
  return [given] {
    check(*given, /*min_new_tokens=*/0);
    const auto model = load_engine(engine_for(given->model.device)).open_chat_model(given->model);
    model->load();
    take_interrupts();
    talk({.model = *model,
          .name = given->model.path,
          .decoding = request_of(*given),
          .prompts = isatty(STDIN_FILENO) != 0,
          .is_interrupted = [] { return interrupted.exchange(false); }},
         std::cin, std::cout);
    return ExitCode::kDone;
  };
}

}  // namespace tributary::app
