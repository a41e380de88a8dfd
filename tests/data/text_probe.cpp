// Answers questions about texts, one JSON object a line, for the parity tests in Python.
//
//   text_probe TOKENIZER.json QUESTIONS ANSWERS
//
// {"encode": "...", "plain": true}  -> {"ids": [...], "text": "...", "skipped": "..."}
// {"decode": [1, 2]}                -> {"text": "...", "skipped": "...", "streamed": "..."}
// {"turns": [{"role": 1, "parts": ["...", {"video": 0}]}], "system": "...", "prompt": false,
//  "newline": true, "seconds": [0, 0.5]}  -> {"text": "...", "ids": [...], "targets": [...]}
// `seconds` are the times of the frames of each clip of Qwen3-VL.

#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"
#include "data/preprocess/qwen_vl.h"
#include "data/text/chat_template.h"
#include "data/text/tokenizer.h"

namespace tributary::data {
namespace {

Json answer_encode(const Tokenizer& tokenizer, const Json& question) {
  const bool plain = question.at("plain").get<bool>();
  const std::vector<TokenId> ids =
      tokenizer.encode(question.at("encode").get_ref<const std::string&>(),
                       plain ? SpecialText::kPlain : SpecialText::kControl);
  return {{"ids", ids},
          {"text", tokenizer.decode(ids, SpecialTokens::kKeep)},
          {"skipped", tokenizer.decode(ids, SpecialTokens::kSkip)}};
}

Json answer_decode(const Tokenizer& tokenizer, const Json& question) {
  const auto ids = question.at("decode").get<std::vector<TokenId>>();
  StreamDecoder stream(tokenizer, SpecialTokens::kKeep);
  std::string streamed;
  for (const TokenId id : ids) streamed += stream.push(id);
  streamed += stream.finish();
  return {{"text", tokenizer.decode(ids, SpecialTokens::kKeep)},
          {"skipped", tokenizer.decode(ids, SpecialTokens::kSkip)},
          {"streamed", streamed}};
}

std::vector<Turn> read_turns(const Json& listed) {
  std::vector<Turn> turns;
  for (const Json& one : listed) {
    Turn turn = {static_cast<Role>(one.at("role").get<int>()), {}};
    for (const Json& part : one.at("parts")) {
      if (part.is_string()) {
        turn.parts.emplace_back(part.get<std::string>());
      } else {
        Modality modality = part.contains("image") ? Modality::kImage : Modality::kVideo;
        if (part.contains("audio")) modality = Modality::kAudio;
        turn.parts.emplace_back(MediaReference{modality, part.begin().value().get<int>()});
      }
    }
    turns.push_back(turn);
  }
  return turns;
}

MediaForm form_of(const std::string& name) {
  static const std::map<std::string, MediaForm> forms{
      {"qwen_vl", MediaForm::kQwenVl},
      {"qwen_omni", MediaForm::kQwenOmni},
      {"internvl", MediaForm::kInternVl},
      {"llava_onevision", MediaForm::kLlavaOneVision}};
  return forms.at(name);
}

Json answer_chat(const Tokenizer& tokenizer, const Json& question) {
  const ChatTemplate chat(tokenizer, {.system_prompt = question.at("system").get<std::string>(),
                                      .media = form_of(question.value("media", "qwen_vl")),
                                      .train_on_newline = question.at("newline").get<bool>(),
                                      .numbers_sounds = question.value("numbers", false)});
  const std::vector<Turn> turns = read_turns(question.at("turns"));
  const ChatEnd end =
      question.at("prompt").get<bool>() ? ChatEnd::kGenerationPrompt : ChatEnd::kLastTurn;
  std::vector<double> times(question.value("frames", 0), 0.0);
  if (question.contains("seconds")) {
    PreprocessorConfig config;
    config.limits_whole_clip = true;
    times = times_of_clip(question.at("seconds").get<std::vector<double>>(), config);
  }
  const EncodedChat encoded = chat.encode(turns, end, [&](const MediaReference&) { return times; });
  return {{"text", chat.render(turns, end)}, {"ids", encoded.tokens}, {"targets", encoded.targets}};
}

Json answer(const Tokenizer& tokenizer, const Json& question) {
  if (question.contains("encode")) return answer_encode(tokenizer, question);
  if (question.contains("decode")) return answer_decode(tokenizer, question);
  return answer_chat(tokenizer, question);
}

int answer_all(const char* tokenizer_file, const char* questions_file, const char* answers_file) {
  const Tokenizer tokenizer = Tokenizer::load(tokenizer_file);
  std::ifstream questions(questions_file);
  std::ofstream answers(answers_file);
  std::string line;
  while (std::getline(questions, line)) {
    answers << answer(tokenizer, parse_json(line, questions_file)).dump() << '\n';
  }
  answers.flush();
  return answers.good() ? 0 : 1;
}

}  // namespace
}  // namespace tributary::data

int main(int count, char** words) {
  if (count != 4) {
    std::cerr << "usage: text_probe TOKENIZER.json QUESTIONS ANSWERS\n";
    return 2;
  }
  try {
    return tributary::data::answer_all(words[1], words[2], words[3]);
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
