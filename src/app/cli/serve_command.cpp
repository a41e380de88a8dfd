#include <csignal>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/cli/answer_options.h"
#include "app/cli/commands.h"
#include "app/engine/engine.h"
#include "app/serve/chat_server.h"
#include "core/error.h"

namespace tributary::app {
namespace {

struct ServeArguments {
  AnswerOptions answer;
  std::int64_t port = 8080;
  std::string name;
};

std::string name_of_model(const ServeArguments& given) {
  if (!given.name.empty()) return given.name;
  const std::filesystem::path path =
      std::filesystem::absolute(given.answer.model.path).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

/// Serves until Ctrl-C or SIGTERM. All threads have the signals blocked, and this one waits for
/// them.
ExitCode serve(const ServeArguments& given, const Answer& answer) {
  TRIB_REQUIRE(given.port >= 0 && given.port < (1 << 16), .what = "app: no such port",
               .where = "--port", .found = str(given.port), .expected = "0 to 65535");
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  const Engine& engine = load_engine(engine_for(given.answer.model.device));
  const std::unique_ptr<ChatModel> model = engine.open_chat_model(given.answer.model);
  model->load();
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  const std::string name = name_of_model(given);
  ChatServer server(*model, {.port = static_cast<int>(given.port), .name = name});
  const std::string address = str("http://127.0.0.1:", server.port(), "/");
  std::cout << "serving " << name << " at " << address
            << " (a page; the API is below /v1); Ctrl-C ends it" << std::endl;
  answer.give({{"name", name}, {"url", address}});
  std::thread listener([&server] { server.serve(); });
  int signal = 0;
  sigwait(&ends, &signal);
  server.stop();
  listener.join();
  std::cout << "stopped" << std::endl;
  return ExitCode::kDone;
}

}  // namespace

Run declare_serve(Verb& verb) {
  const auto given = std::make_shared<ServeArguments>();
  declare_model(verb, given->answer);
  verb.option("--port", given->port, "of 127.0.0.1; 0: any that is free");
  verb.option("--name", given->name,
              "of the model in the API (default: the name of the directory)");
  verb.note(
      "The server answers programs and browsers of this machine alone: POST /v1/chat/completions "
      "and GET /v1/models as OpenAI defines them (docs/formats/chat_api.md), and a page at /.");
  verb.example("tributary serve runs/demo --port 8080");
  return [given, answer = verb.answer()] { return serve(*given, answer); };
}

}  // namespace tributary::app
