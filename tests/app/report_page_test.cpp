#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/report/chart_data.h"
#include "app/report/embed_image.h"
#include "app/report/html.h"
#include "app/report/write_report.h"
#include "core/error.h"
#include "tests/config/temporary_folder.h"

namespace tributary::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kAttack = "<script>alert('x')</script> & \"y\"";

TEST(Html, ShowsMarkupAsText) {
  EXPECT_EQ(html(kAttack), "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;y&quot;");
  EXPECT_EQ(html("größe 日本"), "größe 日本");
  EXPECT_EQ(html("a\xFFz"), "a\xEF\xBF\xBDz");
  EXPECT_EQ(html(std::string_view("\0", 1)), "\xEF\xBF\xBD");
}

TEST(ScriptJson, CannotEndTheScript) {
  const Json json{{"name", "</script><!-- \xE2\x80\xA8"}};
  const std::string text = script_json(json);
  EXPECT_THAT(text, Not(HasSubstr("<")));
  EXPECT_THAT(text, Not(HasSubstr("\xE2\x80\xA8")));
  EXPECT_EQ(Json::parse(text), json);
}

TEST(ShowNumbers, AsPeopleReadThem) {
  EXPECT_EQ(show_count(1234567), "1,234,567");
  EXPECT_EQ(show_count(999), "999");
  EXPECT_EQ(show_count(-1000), "-1,000");
  EXPECT_EQ(show_percent(0.9406), "94.1 %");
  EXPECT_EQ(show_duration(0.25), "0.25 s");
  EXPECT_EQ(show_duration(241.3), "4 min 1 s");
  EXPECT_EQ(show_duration(7320), "2 h 2 min");
  EXPECT_EQ(show_bytes(512), "512 B");
  EXPECT_EQ(show_bytes(1181116006), "1.10 GiB");
}

std::string refusal_of(ImageEmbedder& embedder, const std::string& image) {
  const Result<std::string> url = embedder.embed(image);
  return url ? "embedded" : url.refusal().reason;
}

TEST(ImageEmbedder, TakesPngAndJpegByTheirBytes) {
  const TemporaryFolder folder;
  folder.write("a.jpg", "\x89PNG\r\n\x1a\nxyz");  // the name does not matter
  folder.write("b", "\xFF\xD8\xFFxy");
  ImageEmbedder embedder(folder.path(), 1 << 20);
  EXPECT_EQ(embedder.embed("a.jpg").value(), "data:image/png;base64,iVBORw0KGgp4eXo=");
  EXPECT_EQ(embedder.embed(folder.path("b")).value(), "data:image/jpeg;base64,/9j/eHk=");
  EXPECT_EQ(embedder.embed("data:image/png;base64,AAA=").value(), "data:image/png;base64,AAA=");
}

TEST(ImageEmbedder, SaysWhyAPictureIsNotShown) {
  const TemporaryFolder folder;
  folder.write("a.svg", "<svg onload='x'/>");
  folder.write("big.png", std::string((8 << 20) + 1, 'x'));
  folder.write("small.png", "\x89PNG\r\n\x1a\n");
  ImageEmbedder embedder(folder.path(), 60);
  EXPECT_EQ(refusal_of(embedder, "gone.png"), "image not found: gone.png");
  EXPECT_EQ(refusal_of(embedder, "."), "image not found: .");
  EXPECT_EQ(refusal_of(embedder, "a.svg"), "neither PNG nor JPEG: a.svg");
  EXPECT_EQ(refusal_of(embedder, "big.png"), "image is larger than 8 MiB: big.png");
  EXPECT_THAT(refusal_of(embedder, "data:text/html;base64,AAA="), HasSubstr("no PNG or JPEG"));
  EXPECT_THAT(refusal_of(embedder, "data:image/png;base64,A\" onload=\""),
              HasSubstr("no PNG or JPEG"));
  EXPECT_EQ(refusal_of(embedder, "small.png"), "embedded");
  EXPECT_EQ(refusal_of(embedder, "small.png"), "left out to keep the page small");
}

std::string refusal_of_run(const std::string& directory) {
  try {
    (void)read_run(directory);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kInput);
    return error.what();
  }
  return "accepted";
}

TEST(ReadRun, NamesWhatIsNoRun) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal_of_run(folder.path("none")),
              AllOf(HasSubstr("no run in this directory"), HasSubstr("none/config.yaml"),
                    HasSubstr("No such file")));
  folder.write("config.yaml", "run:\n");
  EXPECT_THAT(refusal_of_run(folder.path()),
              AllOf(HasSubstr("the run has no metrics"), HasSubstr("metrics.jsonl")));
}

TEST(ReadRun, NamesLineAndFieldOfWhatCannotBeRead) {
  const TemporaryFolder folder;
  folder.write("config.yaml", "");
  const auto refusal = [&](const std::string& lines) {
    folder.write("metrics.jsonl", lines);
    return refusal_of_run(folder.path());
  };
  EXPECT_THAT(refusal("{\"step\": 1}\n{\"step\": 2,\n"),
              AllOf(HasSubstr("not valid JSON"), HasSubstr("metrics.jsonl:2")));
  EXPECT_THAT(refusal("{\"loss\": 1}\n"),
              AllOf(HasSubstr("metrics.jsonl:1 step"), HasSubstr("no such field")));
  EXPECT_THAT(refusal("{\"step\": 1, \"loss\": \"low\"}\n"),
              AllOf(HasSubstr("metrics.jsonl:1 loss"), HasSubstr("low"), HasSubstr("a number")));
  EXPECT_THAT(refusal("{\"step\": 1, \"seconds\": [1]}\n"), HasSubstr("an object of numbers"));
  EXPECT_THAT(refusal("[1]\n"), HasSubstr("not a JSON object"));
  EXPECT_EQ(refusal("{\"step\": 1, \"loss\": null}\n"), "accepted");
}

TEST(ReadRun, TakesTheLastLineOfAStepAndLeavesAHalfLineOut) {
  const TemporaryFolder folder;
  folder.write("config.yaml", "");
  folder.write("metrics.jsonl",
               "{\"step\": 1, \"loss\": 4}\n{\"step\": 2, \"loss\": 3}\n{\"step\": 1, \"loss\": "
               "5}\n{\"step\": 3, \"lo");
  const RunRecord run = read_run(folder.path());
  ASSERT_EQ(run.steps.size(), 2u);
  EXPECT_EQ(run.steps[0].loss, 5.0);
  EXPECT_EQ(run.steps[1].step, 2);
}

RunRecord attacked_run() {
  RunRecord run;
  run.directory = run.name = run.config = kAttack;
  StepRecord step;
  step.step = 1;
  step.loss = 2.0;
  step.loss_by_source = {{kAttack, 1.0}};
  step.seconds = {{kAttack, 1.0}};
  step.norms = {{"gradient", {{kAttack, 1.0}}}, {"update", {{kAttack, 1.0}}}};
  step.drawn = {{kAttack, {{"samples", 1}}}};
  step.skipped = true;
  step.skip_reason = kAttack;
  step.sample_ids = {kAttack};
  run.steps = {step};
  run.validations = {{1, 1.0, {}, {{kAttack, 0.5}}}};
  run.predictions = {{kAttack, kAttack, kAttack, kAttack, false, kAttack, {kAttack}}};
  run.answers = {{.step = 1, .prediction = run.predictions.front()}};
  run.samples = {{.source = kAttack,
                  .key = kAttack,
                  .tokens = 1,
                  .target_tokens = 1,
                  .pieces = {{.tokens = {kAttack}, .is_target = true}},
                  .images = {kAttack}}};
  run.modules = {{.name = kAttack, .dtype = kAttack}};
  run.refused = {{kAttack, kAttack, kAttack}};
  run.summary = Summary{};
  run.summary->accuracy = {{"overall", 0.5}, {kAttack, 0.5}};
  run.summary->stopped = kAttack;
  run.environment = {{kAttack, kAttack}};
  return run;
}

TEST(WriteReport, EscapesEveryTextOfTheRun) {
  const std::string page = write_report(attacked_run());
  const auto contains = [&](const std::string& words) {
    return page.find(words) != std::string::npos;
  };
  EXPECT_FALSE(contains("<script>alert"));
  EXPECT_FALSE(contains("</script> &"));
  EXPECT_TRUE(contains("&lt;script&gt;alert(&#39;x&#39;)"));
  EXPECT_TRUE(contains("\\u003cscript>alert"));  // in the data of the charts
}

TEST(WriteReport, NamesEveryFileThatIsMissing) {
  RunRecord run;
  run.name = "half";
  run.missing = {"validation.jsonl", "predictions.jsonl", "validation_answers.jsonl",
                 "samples.jsonl",    "summary.json",      "environment.json"};
  const std::string page = write_report(run);
  for (const std::string& file : run.missing)
    EXPECT_THAT(page, HasSubstr("<code>" + file + "</code> is missing"));
  EXPECT_THAT(page, HasSubstr("not finished"));
}

TEST(WriteReport, ShowsRightAndWrongPredictionsOfEverySource) {
  RunRecord run;
  for (int i = 0; i < 40; ++i)
    run.predictions.push_back({i % 2 == 0 ? "even" : "odd",
                               "q" + std::to_string(i),
                               "a",
                               "e",
                               i % 10 != 3,
                               std::nullopt,
                               {}});
  const std::string page = write_report(run, {.examples_per_source = 4});
  const auto count = [&](const std::string& words) {
    int found = 0;
    for (std::size_t at = page.find(words); at != std::string::npos; at = page.find(words, at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(count("data-source=\"even\""), 4);
  EXPECT_EQ(count("data-source=\"odd\""), 4);
  EXPECT_EQ(count("class=\"card prediction wrong\""), 2);  // the odd ones, which are half of four
  EXPECT_THAT(page, HasSubstr("8 of 40 held-out questions"));
}

RunRecord run_of_steps(int steps) {
  RunRecord run;
  for (int i = 1; i <= steps; ++i) {
    StepRecord step;
    step.step = i;
    step.loss = i;
    run.steps.push_back(step);
  }
  return run;
}

TEST(WriteReport, SaysHowARunEnded) {
  RunRecord run = run_of_steps(20);
  EXPECT_THAT(write_report(run),
              HasSubstr("has not come to its end: it goes on, or it was killed"));
  run.failure = "resource error: mesh: no progress: rank 1";
  EXPECT_THAT(write_report(run),
              HasSubstr("not come to its end: resource error: mesh: no progress: rank 1"));
  run.failure.clear();
  run.refused = {{"a:1", "too_long", "long"}};
  EXPECT_THAT(write_report(run), HasSubstr("it refused 1 records (see Incidents)"));
  run.summary = Summary{};
  run.summary->stopped = "done";
  EXPECT_THAT(write_report(run),
              AllOf(HasSubstr("has done its <strong>20 steps</strong>. No held-out question"),
                    Not(HasSubstr("not written yet"))));
  run.summary->stopped = "terminated";
  EXPECT_THAT(write_report(run), HasSubstr("was stopped after <strong>20 steps</strong>"));
  run.summary->stopped = "non_finite";
  run.steps.back().skipped = true;
  run.steps.back().skip_reason = "not finite: loss";
  EXPECT_THAT(write_report(run), HasSubstr("its last steps were skipped, not finite: loss."));
}

TEST(WriteReport, GivesTheMeanLossOfTheLastSteps) {
  EXPECT_THAT(write_report(run_of_steps(100)),
              AllOf(HasSubstr("<dd>75.5</dd>"), HasSubstr("mean of the last 50 steps")));
  EXPECT_THAT(write_report(run_of_steps(3)),
              AllOf(HasSubstr("<dd>2</dd>"), HasSubstr("mean of the last 3 steps")));
}

TEST(WriteReport, TellsAPictureThatWasNotKeptFromNone) {
  RunRecord run;
  const auto page_with = [&](std::vector<std::string> images, MaybeNumber pictures) {
    run.predictions = {{.source = "s",
                        .question = "q",
                        .answer = "a",
                        .expected = "e",
                        .blind_answer = std::nullopt,
                        .images = std::move(images),
                        .pictures = pictures}};
    return write_report(run);
  };
  EXPECT_THAT(page_with({}, 2), HasSubstr("picture not kept"));
  for (const MaybeNumber pictures : {MaybeNumber(0), MaybeNumber()})
    EXPECT_THAT(page_with({}, pictures),
                AllOf(Not(HasSubstr("not kept")), Not(HasSubstr("class=\"pictures"))));
}

TEST(WriteReport, MarksAnswersThatWereCut) {
  RunRecord run;
  run.predictions = {{.source = "s",
                      .question = "q",
                      .answer = "a b",
                      .expected = "a b c",
                      .blind_answer = std::nullopt,
                      .images = {},
                      .cut = true}};
  run.summary = Summary{};
  run.summary->accuracy = {{"overall", 0}};
  run.summary->cut_answers = 1;
  run.summary->max_new_tokens = 5;
  EXPECT_THAT(write_report(run), AllOf(HasSubstr("a b <small>(cut)</small>"),
                                       HasSubstr("1 answers were cut at 5 tokens")));
}

TEST(WriteReport, ShowsScoresBesideExactMatch) {
  RunRecord run;
  run.predictions = {{.source = "s",
                      .question = "q",
                      .answer = "a b",
                      .expected = "a",
                      .blind_answer = std::nullopt,
                      .images = {},
                      .references = {"a", "<c>"},
                      .scores = {{"anls", 0.25}}}};
  run.summary = Summary{};
  run.summary->accuracy = {{"overall", 0}};
  run.summary->scores = {{"anls", {{"overall", 0.25}, {"s", 0.75}}}};
  EXPECT_THAT(write_report(run),
              AllOf(HasSubstr("<dt>expected</dt><dd>a <small>or</small> &lt;c&gt;</dd>"),
                    HasSubstr("<dt>anls</dt><dd>0.250</dd>"),
                    HasSubstr("<tr><td>s</td><td class=\"number\">0.750</td></tr></table>")));
}

TEST(WriteReport, ShowsTheEnvironmentInWordsAndUnits) {
  RunRecord run;
  run.environment = {{"memory_bytes", "25276514304"},
                     {"peak_flops", "137479647447.6445"},
                     {"parallel", "ATen/Parallel:\n\tmany lines"},
                     {"run_on", "a<b"}};
  EXPECT_THAT(write_report(run),
              AllOf(HasSubstr(">memory</td><td class=\"mono\">23.54 GiB</td>"),
                    HasSubstr("137.5 GFLOP/s"), HasSubstr("<summary>ATen/Parallel: ...</summary>"),
                    HasSubstr("title=\"run_on\">run on</td><td class=\"mono\">a&lt;b</td>")));
}

TEST(WriteReport, NamesModulesEpochsAndThePeak) {
  RunRecord run;
  run.modules = {{.name = "vision", .parameters = 1000, .trained = false},
                 {.name = "back<bone", .parameters = 3000}};
  run.summary = Summary{};
  run.summary->epochs = 2.5;
  run.environment = {{"peak_flops", "137479647447.6"}, {"peak_flops_from", "a product"}};
  StepRecord step;
  step.step = 1;
  step.mfu = 0.3;
  run.steps = {step};
  EXPECT_THAT(write_report(run),
              AllOf(HasSubstr("back&lt;bone</td><td class=\"number\">3,000</td><td "
                              "class=\"number\">75.0 %</td><td>trained"),
                    HasSubstr("frozen"), HasSubstr("<dt>Epochs</dt><dd>2.5</dd>"),
                    HasSubstr("The peak is 137.5 GFLOP/s (a product)")));
}

TEST(ReadRun, TakesModulesOutOfTheEnvironment) {
  const TemporaryFolder folder;
  folder.write("config.yaml", "");
  folder.write("metrics.jsonl", "");
  folder.write(
      "environment.json",
      R"({"cpu": "x", "modules": [{"name": "vision", "parameters": 5, "trained": true}]})");
  const RunRecord run = read_run(folder.path());
  ASSERT_EQ(run.modules.size(), 1U);
  EXPECT_EQ(run.modules[0].parameters, 5);
  EXPECT_TRUE(run.modules[0].trained);
  EXPECT_EQ(run.environment.size(), 1U);
  folder.write("environment.json", R"({"modules": 7})");
  EXPECT_THAT(refusal_of_run(folder.path()), HasSubstr("no list of modules"));
}

TEST(ChartData, CutsALongRunIntoMeansThatKeepEveryStep) {
  RunRecord run;
  for (int i = 1; i <= 1000; ++i) {
    StepRecord step;
    step.step = i;
    if (i != 500) step.loss = i;
    step.loss_by_source = {{i <= 500 ? "first" : "second", 1.0}};
    run.steps.push_back(step);
  }
  const Json data = chart_data(run, count_drawn(run), 100);
  ASSERT_EQ(data["step"].size(), 100u);
  EXPECT_EQ(data["steps_per_point"], 10);
  EXPECT_EQ(data["step"].back(), 1000);
  EXPECT_EQ(data["loss"][0], 5.5);
  EXPECT_EQ(data["loss"][49], 495.0);  // of the nine steps with a value
  EXPECT_EQ(data["loss_by_source"][0]["name"], "first");
  EXPECT_TRUE(data["loss_by_source"][0]["values"][99].is_null());
  EXPECT_EQ(chart_data(run, count_drawn(run), 1500)["steps_per_point"], 1);
}

}  // namespace
}  // namespace tributary::app
