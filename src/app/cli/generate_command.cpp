#include <iostream>
#include <nlohmann/json.hpp>

#include "app/chat/read_media.h"
#include "app/cli/answer_options.h"
#include "app/cli/commands.h"
#include "app/engine/engine.h"
#include "core/error.h"

namespace tributary::app {
namespace {

struct GenerateArguments {
  AnswerOptions answer{.model = {}, .max_new_tokens = 64};
  std::vector<std::string> images;
  std::vector<std::string> sounds;
  std::string prompt;
};

/// The images, the sounds and then the text, as one user turn.
ExitCode generate(const GenerateArguments& given, const Answer& answer) {
  TRIB_REQUIRE(!given.prompt.empty(), .what = "app: the prompt is empty", .where = "--prompt");
  check(given.answer, /*min_new_tokens=*/1);
  const Engine& engine = load_engine(engine_for(given.answer.model.device));
  const std::unique_ptr<ChatModel> model = engine.open_chat_model(given.answer.model);
  if (!given.images.empty()) require_vision(*model, given.answer.model.path, given.images.size());
  if (!given.sounds.empty()) require_hearing(*model, given.answer.model.path, given.sounds.size());
  ChatRequest request = request_of(given.answer);
  data::Turn& turn = request.turns.emplace_back();
  for (const std::string& path : given.images) add_picture(read_picture(path), turn, request);
  for (const std::string& path : given.sounds) add_sound(read_sound(path), turn, request);
  turn.parts.emplace_back(given.prompt);
  std::string said;
  (void)model->answer(request, [&said](std::string_view text) {
    said += text;
    std::cout << text << std::flush;
    return true;
  });
  std::cout << std::endl;
  answer.give({{"answer", said}});
  return ExitCode::kDone;
}

}  // namespace

Run declare_generate(Verb& verb) {
  // Shared with the Run, which outlives this call.
  const auto given = std::make_shared<GenerateArguments>();
  declare_model(verb, given->answer);
  verb.option("--image", given->images,
              "JPEG, PNG, WebP, GIF or BMP file; may be given several times");
  verb.option("--audio", given->sounds,
              "WAV, FLAC, Ogg, MP3, M4A or MP4 file; may be given several times");
  verb.required("--prompt", given->prompt, "What the user says, after images and sounds");
  verb.option("--max-new-tokens", given->answer.max_new_tokens,
              "Longest answer [tokens]; with the prompt at most max_position_embeddings");
  declare_sampling(verb, given->answer);
  verb.example("tributary generate runs/demo --image picture.png --prompt \"What is shown?\"");
  return [given, answer = verb.answer()] { return generate(*given, answer); };
}

}  // namespace tributary::app
