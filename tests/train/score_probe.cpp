// Scores answers for the parity test in Python: one JSON object a line.
//
//   score_probe QUESTIONS SCORES
//
// {"answer": "...", "references": ["...", ...]} -> {"token_f1": 0.5, "anls": 1, ...}

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "config/run/run_config.h"
#include "core/json.h"
#include "train/validation/score/answer_scores.h"

int main(int count, char** words) {
  using tributary::Json;
  if (count != 3) {
    std::cerr << "usage: score_probe QUESTIONS SCORES\n";
    return 2;
  }
  std::ifstream questions(words[1]);
  std::ofstream scores(words[2]);
  std::string line;
  while (std::getline(questions, line)) {
    const Json question = tributary::parse_json(line, words[1]);
    const auto references = question.at("references").get<std::vector<std::string>>();
    Json scored;
    for (const std::string_view name : tributary::config::kAnswerScores)
      scored[std::string(name)] = tributary::train::score_answer(
          std::string(name), question.at("answer").get<std::string>(), references);
    scores << scored.dump() << '\n';
  }
  scores.flush();
  return scores.good() ? 0 : 1;
}
