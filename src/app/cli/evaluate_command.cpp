#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli/answer_options.h"
#include "app/cli/commands.h"
#include "app/cli/output_file.h"
#include "app/engine/engine.h"
#include "core/error.h"
#include "core/file/given_file.h"
#include "core/join.h"

namespace tributary::app {
namespace {

struct EvaluateArguments {
  AnswerOptions answer;
  EvaluateOptions options;
};

constexpr std::string_view kEnding = ".jsonl";

void check_metrics(const std::vector<std::string>& metrics) {
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    TRIB_REQUIRE(
        std::ranges::find(config::kAnswerScores, metrics[i]) != config::kAnswerScores.end(),
        .what = "app: unknown metric", .where = "--metric", .found = escaped(metrics[i]),
        .expected = "one of " + join(config::kAnswerScores));
    TRIB_REQUIRE(std::find(metrics.begin(), metrics.begin() + static_cast<std::ptrdiff_t>(i),
                           metrics[i]) == metrics.begin() + static_cast<std::ptrdiff_t>(i),
                 .what = "app: metric is given twice", .where = "--metric", .found = metrics[i],
                 .expected = "each metric once");
  }
}

/// The metrics with the files that were written.
Json answer_of(const EvaluateOptions& options) {
  Json answer = read_given_json(options.summary, {.what = "app: metrics cannot be read"});
  answer["answers"] = options.output;
  answer["metrics"] = options.summary;
  return answer;
}

ExitCode evaluate(const EvaluateArguments& given, const Answer& answer) {
  EvaluateOptions options = given.options;
  check(given.answer, /*min_new_tokens=*/0);
  check_metrics(options.metrics);
  TRIB_REQUIRE(options.limit >= 0, .what = "app: limit is negative", .where = "--limit",
               .found = str(options.limit), .expected = "0 (all records) or above");
  TRIB_REQUIRE(options.capacity_tokens >= 1, .what = "app: a batch needs room",
               .where = "--capacity-tokens", .found = str(options.capacity_tokens),
               .expected = "1 or more");
  for (const auto& [name, degree] :
       {std::pair{"--pp", options.pp}, {"--dp-shard", options.dp_shard}, {"--tp", options.tp}})
    TRIB_REQUIRE(degree >= 1, .what = "app: a copy of the model needs ranks", .where = name,
                 .found = str(degree), .expected = "1 or more");
  TRIB_REQUIRE(options.output.ends_with(kEnding), .what = "app: name of the answers", .where = "-o",
               .found = options.output,
               .expected = "a name with .jsonl at its end; the metrics go beside it, with .json");
  options.summary = options.output.substr(0, options.output.size() - 1);
  check_output(options.output, {options.data.path});
  check_output(options.summary, {options.data.path});
  options.data.name = std::filesystem::path(options.data.path).stem().string();
  options.model = given.answer.model.path;
  options.system = given.answer.model.system;
  options.device = given.answer.model.device;
  options.max_new_tokens = given.answer.max_new_tokens;
  options.temperature = given.answer.temperature;
  options.top_p = given.answer.top_p;
  options.seed = static_cast<std::uint64_t>(given.answer.seed);
  const RankOutcome outcome = load_engine(engine_for(options.device)).evaluate(options);
  if (outcome.leads && answer.is_asked()) answer.give(answer_of(options));
  return outcome.code;
}

}  // namespace

Run declare_evaluate(Verb& verb) {
  // Shared with the Run, which outlives this call.
  const auto given = std::make_shared<EvaluateArguments>();
  EvaluateOptions& options = given->options;
  declare_model(verb, given->answer);
  verb.positional("DATA", options.data.path,
                  "a file or directory of records, in any form that training reads");
  verb.required("-o,--output", options.output,
                "JSONL to write: question, answer, references and scores of each record; the "
                "metrics go beside it, as JSON");
  verb.option("--metric", options.metrics,
              "token_f1, anls, rouge_l or vqa_accuracy, beside exact match; may be given several "
              "times");
  verb.option("--images", options.data.images,
              "folder that image paths start from (default: the folder of the file)");
  verb.option("--format", options.data.format,
              "form of the records, as `format` of a source (default: by their keys)");
  verb.option("--question", options.data.question,
              "question before the text of each picture, as `question` of a source");
  verb.option("--limit", options.limit, "records to answer, the first ones; 0: all");
  verb.option("--max-new-tokens", given->answer.max_new_tokens,
              "Longest answer [tokens]; 0: a quarter more than the longest reference");
  verb.option("--capacity-tokens", options.capacity_tokens,
              "records that each rank answers together [tokens]");
  verb.option("--pp", options.pp, "stages of the pipeline that hold a copy of the model");
  verb.option("--dp-shard", options.dp_shard,
              "ranks that share its weights, and gather each layer as it runs");
  verb.option("--tp", options.tp,
              "ranks that share each layer; ranks beyond pp x dp-shard x tp hold further copies");
  verb.flag("--blind", options.blind, "answer a second time with the pixels set to zero");
  declare_sampling(verb, given->answer);
  verb.example(
      "tributary evaluate runs/demo questions.jsonl -o answers.jsonl --metric anls\n"
      "  tributary launch -n 2 -- evaluate runs/demo questions.jsonl -o answers.jsonl --dp-shard "
      "2");
  return [given, answer = verb.answer()] { return evaluate(*given, answer); };
}

}  // namespace tributary::app
