#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "app/cli/commands.h"
#include "app/cli/output_file.h"
#include "app/launch/command_words.h"
#include "config/artifact/shape_histogram.h"
#include "config/family/model_config.h"
#include "config/run/read_run_config.h"
#include "core/error.h"
#include "core/log.h"
#include "data/demo/make_demo.h"
#include "data/loader/encode_sample.h"
#include "data/loader/quarantine.h"
#include "data/loader/source_files.h"
#include "data/loader/survey.h"

namespace tributary::app {
namespace {

struct Arguments {
  std::string path;
  std::vector<std::string> overrides;
  config::SourceSection source;  // how to read a file without a configuration
  std::string histogram;
  std::int64_t limit = 0;
  bool json = false;
};

bool is_config(const std::string& path) {
  return path.ends_with(".yaml") || path.ends_with(".yml");
}

/// Surveys every source of a run and its held-out files, with the run's tokenizer and limits.
std::vector<data::Survey> survey_run(const config::RunConfig& run, std::int64_t limit) {
  config::RunConfig unlimited = run;  // so that the tokens of samples that are too long are counted
  unlimited.data.max_tokens = 0;
  unlimited.batch.capacity_tokens = {0};
  config::ModelConfig model = config::read_model_config(run.model.path);
  const Tokens max_tokens = data::max_tokens_of(run, model.backbone);
  model.backbone.dynamic_rope = false;
  const auto tokenizer = data::Tokenizer::load(run.model.path);
  const auto encoder = data::make_encoder(
      unlimited, model, tokenizer, [](const data::Picture&, int, int) -> data::Picture {
        TRIB_RAISE(Fault::kBug, .what = "app: data inspect resized a picture");
      });
  const data::SurveyOptions options{
      .limit = limit, .encoder = encoder.get(), .max_tokens = max_tokens};
  std::vector<data::Survey> surveys;
  for (const config::SourceSection& source : run.data.sources) {
    surveys.push_back(data::survey_source(source, options));
    surveys.back().weight = source.weight;
    if (const data::Histogram& tokens = surveys.back().tokens;
        run.data.weigh_by == config::WeighBy::kTokens && tokens.sum > 0)
      surveys.back().weight *= static_cast<double>(tokens.values) / static_cast<double>(tokens.sum);
    if (source.held_out.empty()) continue;
    config::SourceSection held_out = source;
    held_out.name += " (held out)";
    held_out.images = data::image_root(source);
    held_out.path = source.held_out;
    surveys.push_back(data::survey_source(held_out, options));
  }
  return surveys;
}

void print(const std::vector<data::Survey>& surveys, bool json) {
  if (!json) {
    for (const data::Survey& survey : surveys) std::cout << data::to_text(survey);
    return;
  }
  Json list = Json::array();
  for (const data::Survey& survey : surveys) list.push_back(data::to_json(survey));
  // Names and texts come from the files, so bytes that are not UTF-8 are replaced.
  std::cout << list.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

/// Whether files that records name are all that is wrong.
bool only_misses_files(std::span<const data::Survey> surveys) {
  return std::ranges::all_of(surveys, [](const data::Survey& survey) {
    return std::ranges::all_of(survey.bad,
                               [](const auto& reason) { return reason.first == "missing_file"; });
  });
}

[[noreturn]] void refuse(std::span<const data::Survey> surveys, const std::string& found,
                         const std::string& where, const std::string& rule) {
  TRIB_RAISE(Fault::kInput, .what = "data: too many bad samples", .where = where, .found = found,
             .expected = rule,
             .fix = only_misses_files(surveys)
                        ? "give the folder that their paths start from: --images FOLDER, or "
                          "`images` of the source"
                        : "repair the records listed above",
             .exit = ExitCode::kDataLimit);
}

/// Applies the limits of a training run: data.bad_fraction of all records, at least
/// data.bad_at_least, and half of a source. Below them the last line counts the bad records.
void judge(const std::vector<data::Survey>& surveys, const config::DataSection& data) {
  std::int64_t bad = 0;
  std::int64_t surveyed = 0;
  for (const data::Survey& survey : surveys) {
    bad += survey.bad_records();
    surveyed += survey.surveyed;
  }
  const auto share = static_cast<std::int64_t>(data.bad_fraction * static_cast<double>(surveyed));
  const std::string rule = str("at most ", data.bad_fraction * 100, " % (data.bad_fraction), or ",
                               data.bad_at_least, " (data.bad_at_least)");
  if (bad > std::max(data.bad_at_least, share))
    refuse(surveys, str(bad, " of ", surveyed), "", rule);
  for (const data::Survey& survey : surveys)
    if (survey.bad_records() > data::max_bad_of_source(survey.surveyed, data.bad_fraction))
      refuse({&survey, 1}, str(survey.bad_records(), " of ", survey.surveyed), survey.path,
             "at most half of the records of a source, or data.bad_fraction of them");
  if (bad > 0)
    log_note(
        str("data: ", bad, " of ", surveyed, " records are bad; training replaces them: ", rule));
}

/// Refuses a histogram that could not be written, or not be read by its name, before the survey.
void check_histogram(const Arguments& arguments, const config::RunConfig& run) {
  if (arguments.histogram.empty()) return;
  TRIB_REQUIRE(is_config(arguments.path), .what = "app: --histogram without a configuration",
               .where = arguments.path, .found = arguments.histogram,
               .expected = "the YAML file of a run, whose model counts tokens and patches");
  TRIB_REQUIRE(arguments.histogram.ends_with(".json"), .what = "app: name of a shape histogram",
               .where = "--histogram", .found = arguments.histogram,
               .expected = "a name with .json at its end, which --lengths takes for a histogram");
  std::vector<std::string> inputs{arguments.path};
  for (const config::SourceSection& source : run.data.sources)
    inputs.insert(inputs.end(), {source.path, source.held_out});
  check_output(arguments.histogram, inputs);
}

void write_histogram(const Arguments& arguments, const std::vector<data::Survey>& surveys) {
  const config::ShapeHistogram histogram = data::mix_shapes(surveys, arguments.path);
  write_output(arguments.histogram, config::write_shape_histogram(histogram));
  if (!arguments.json)
    std::cout << "wrote " << arguments.histogram << ", " << histogram.bins.size()
              << " shapes, to plan with: " << own_program_words() << " plan "
              << shell_word(arguments.path) << " --lengths " << shell_word(arguments.histogram)
              << '\n';
}

ExitCode inspect(const Arguments& arguments) {
  TRIB_REQUIRE(arguments.limit >= 0, .what = "app: limit is negative", .where = "--limit",
               .found = str(arguments.limit), .expected = "0 (all records) or above");
  config::RunConfig run;
  std::vector<data::Survey> surveys;
  if (is_config(arguments.path)) {
    TRIB_REQUIRE(arguments.source == config::SourceSection{},
                 .what = "app: --images, --format or --question beside a configuration",
                 .found = arguments.path,
                 .fix = "set `images`, `format`, `question` of the source there");
    run = config::read_run_config(arguments.path, arguments.overrides);
    check_histogram(arguments, run);
    surveys = survey_run(run, arguments.limit);
  } else {
    TRIB_REQUIRE(arguments.overrides.empty(), .what = "app: values without a configuration",
                 .where = arguments.path, .found = arguments.overrides.front(),
                 .expected = "key.path=value after the YAML file of a run");
    check_histogram(arguments, run);
    config::SourceSection source = arguments.source;
    source.name = std::filesystem::path(arguments.path).stem().string();
    source.path = arguments.path;
    surveys.push_back(data::survey_source(source, {.limit = arguments.limit}));
  }
  print(surveys, arguments.json);
  std::cout << std::flush;  // before what is said of the records, where both go to one file
  judge(surveys, run.data);
  if (!arguments.histogram.empty()) write_histogram(arguments, surveys);
  return ExitCode::kDone;
}

}  // namespace

Run declare_data_inspect(Verb& verb) {
  const auto arguments = std::make_shared<Arguments>();
  verb.positional("PATH", arguments->path,
                  "a file or directory of records, or a run's YAML file: all its sources");
  verb.rest(kKeyWords, arguments->overrides,
            "values that replace those of the YAML file, for example data.max_tokens=512");
  verb.option("--images", arguments->source.images,
              "folder that image paths start from (default: the folder of the file)");
  verb.option("--format", arguments->source.format,
              "form of the records, as `format` of a source (default: by their keys)");
  verb.option("--question", arguments->source.question,
              "question before the text of each picture, as `question` of a source");
  verb.option("--limit", arguments->limit, "records of each file to look at, 0: all");
  verb.option("--histogram", arguments->histogram,
              "JSON file for the shapes of the run's samples, which `plan --lengths` and `simulate "
              "--lengths` read");
  verb.flag("--json", arguments->json, "print one JSON list");
  verb.example(
      "tributary data inspect train.jsonl --images pictures --limit 1000\n"
      "  tributary data inspect run.yaml --histogram shapes.json");
  return [arguments] { return inspect(*arguments); };
}

Run declare_data_make_demo(Verb& verb) {
  struct Arguments {
    std::string directory;
    std::int64_t seed = 1;
    std::int64_t samples = data::DemoOptions{}.samples;
    std::int64_t held_out = data::DemoOptions{}.held_out;
  };
  const auto given = std::make_shared<Arguments>();
  verb.required("-o,--output", given->directory, "Directory to make");
  verb.option("--seed", given->seed, "Seed of the pictures and questions");
  verb.option("--samples", given->samples, "Training records of the five sources together");
  verb.option("--held-out", given->held_out, "Held-out records of each source");
  verb.example("tributary data make-demo -o runs/demo-data");
  return [given, answer = verb.answer()] {
    TRIB_REQUIRE(given->seed >= 0, .what = "app: seed below 0", .where = "--seed",
                 .found = str(given->seed), .expected = "0 or more");
    const bool is_new = data::make_demo({.directory = given->directory,
                                         .seed = static_cast<std::uint64_t>(given->seed),
                                         .samples = given->samples,
                                         .held_out = given->held_out});
    std::cout << (is_new ? "made " : "there already: ") << given->directory << "\n";
    answer.give({{"directory", given->directory}, {"is_new", is_new}});
    return ExitCode::kDone;
  };
}

}  // namespace tributary::app
