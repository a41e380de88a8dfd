#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "app/cli/verb.h"
#include "app/engine/chat_model.h"

namespace tributary::app {

/// The arguments of verbs that answer: which model, on which device, and how it says its answers.
struct AnswerOptions {
  ChatModelOptions model;
  std::int64_t max_new_tokens = 0;
  double temperature = 0;
  double top_p = 1;
  std::int64_t seed = 0;
};

/// Declares MODEL_OR_RUN_DIR, --system and --device.
void declare_model(Verb& verb, AnswerOptions& options);
/// Declares --temperature, --top-p and --seed.
void declare_sampling(Verb& verb, AnswerOptions& options);

/// errors: Fault::kInput naming the option that is out of range
void check(const AnswerOptions& options, std::int64_t min_new_tokens);

/// A request that is decoded as the options say; without turns.
[[nodiscard]] ChatRequest request_of(const AnswerOptions& options);

}  // namespace tributary::app
