#include "app/cli/answer_options.h"

#include "core/error.h"

namespace tributary::app {

void declare_model(Verb& verb, AnswerOptions& options) {
  verb.positional("MODEL_OR_RUN_DIR", options.model.path,
                  "Hugging Face directory, run directory (its newest checkpoint) or checkpoint");
  verb.option("--system", options.model.system,
              "The system prompt; \"\": none (default: the run's data.system_prompt, that of the "
              "family for a Hugging Face directory)");
  verb.option("--device", options.model.device, "cpu, cuda or cuda:N, as run.device");
}

void declare_sampling(Verb& verb, AnswerOptions& options) {
  verb.option("--temperature", options.temperature, "0: greedy; above: sampled");
  verb.option("--top-p", options.top_p,
              "Sample from the fewest most probable tokens that have this probability");
  verb.option("--seed", options.seed, "Of sampling");
}

void check(const AnswerOptions& options, std::int64_t min_new_tokens) {
  TRIB_REQUIRE(options.max_new_tokens >= min_new_tokens, .what = "app: an answer needs room",
               .where = "--max-new-tokens", .found = str(options.max_new_tokens),
               .expected = str(min_new_tokens, " or more"));
  TRIB_REQUIRE(options.temperature >= 0 && options.temperature <= 100,
               .what = "app: temperature out of range", .where = "--temperature",
               .found = str("temperature ", options.temperature), .expected = "0 (greedy) to 100");
  TRIB_REQUIRE(options.top_p > 0 && options.top_p <= 1, .what = "app: top_p out of range",
               .where = "--top-p", .found = str("top_p ", options.top_p),
               .expected = "above 0, at most 1");
  TRIB_REQUIRE(options.seed >= 0, .what = "app: seed is negative", .where = "--seed",
               .found = str(options.seed), .expected = "0 or more");
}

ChatRequest request_of(const AnswerOptions& options) {
  ChatRequest request;
  if (options.max_new_tokens > 0) request.max_new_tokens = options.max_new_tokens;
  request.temperature = options.temperature;
  request.top_p = options.top_p;
  request.seed = static_cast<std::uint64_t>(options.seed);
  return request;
}

}  // namespace tributary::app
