#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli/commands.h"
#include "app/launch/command_words.h"
#include "app/launch/run_ranks.h"
#include "core/error.h"
#include "core/text.h"

namespace tributary::app {

namespace {

struct LaunchArguments {
  std::int64_t ranks = 0;
  std::string encoders = "0";
  RestartLimits limits;
  std::vector<std::string> words;
};

/// The words that called the launcher, without those of a rank.
std::string words_again(const LaunchArguments& given) {
  const RestartLimits standard;
  std::string text = str(program_words(), " launch -n ", given.ranks);
  if (given.encoders != LaunchArguments().encoders) text += str(" --encoders ", given.encoders);
  if (given.limits.restarts != standard.restarts)
    text += str(" --restarts ", given.limits.restarts);
  if (given.limits.first_pause_seconds != standard.first_pause_seconds)
    text += str(" --pause ", given.limits.first_pause_seconds);
  return text + " --";
}

/// A number, or a range MIN-MAX.
///
/// errors: Fault::kInput
EncoderCounts read_encoders(const std::string& text) {
  constexpr std::int64_t kMax = 255;
  const auto number = [](std::string_view word) {
    std::int64_t value = -1;
    const auto end = std::from_chars(word.data(), word.data() + word.size(), value);
    return end.ec == std::errc() && end.ptr == word.data() + word.size() ? value : -1;
  };
  const std::size_t dash = text.find('-');
  const std::int64_t min = number(std::string_view(text).substr(0, dash));
  const std::int64_t max =
      dash == std::string::npos ? min : number(std::string_view(text).substr(dash + 1));
  TRIB_REQUIRE(0 <= min && min <= max && max <= kMax, .what = "app: number of encoders",
               .where = "--encoders", .found = text,
               .expected = str("0 to ", kMax, ", or a range MIN-MAX of such numbers"));
  return {.min = min, .max = max};
}

}  // namespace

Run declare_launch(Verb& verb) {
  const auto given = std::make_shared<LaunchArguments>();
  verb.option("-n,--ranks", given->ranks, "processes to start on this machine");
  verb.option(
      "--encoders", given->encoders,
      "processes beside the ranks that encode for them, where `parallel.<module>.placement` "
      "is flow; one that fails is replaced. MIN-MAX: as many of them as the ranks need, "
      "at first those of the plan");
  verb.option("--restarts", given->limits.restarts,
              "starts after the first when a rank is lost, hangs, breaks or lacks a resource; "
              "training goes on from its newest checkpoint; 0: none");
  verb.option("--pause", given->limits.first_pause_seconds,
              "before the first restart [s]; doubles each time, up to 60");
  verb.rest("VERB ARGUMENT ...", given->words, "behind `--`: what every rank runs");
  verb.example(
      "tributary launch -n 2 -- train configs/demo.yaml run.dir=runs/demo2\n"
      "  tributary launch -n 2 --encoders 1-4 -- train run.yaml model.freeze=[vision] "
      "parallel.vision.placement=flow");
  return [given, answer = verb.answer()] {
    TRIB_REQUIRE(given->ranks >= 1 && given->ranks <= 4096, .what = "app: number of ranks",
                 .where = "-n", .found = str(given->ranks), .expected = "1 to 4096");
    EncoderCounts encoders = read_encoders(given->encoders);
    TRIB_REQUIRE(given->limits.restarts >= 0, .what = "app: restarts below 0",
                 .where = "--restarts", .found = str(given->limits.restarts),
                 .expected = "0 or more");
    TRIB_REQUIRE(given->limits.first_pause_seconds >= 0, .what = "app: pause below 0",
                 .where = "--pause", .found = str(given->limits.first_pause_seconds),
                 .expected = "0 or more seconds");
    TRIB_REQUIRE(!given->words.empty(), .what = "app: nothing to launch",
                 .expected = "a verb with its arguments behind `--`",
                 .fix = "tributary launch -n 2 -- train CONFIG.yaml");
    TRIB_REQUIRE(given->words.front() != "launch", .what = "app: launch launches itself",
                 .found = "launch", .expected = "another verb");
    BesideRanks beside =
        check_before_launch(given->words, given->ranks, encoders.keys(encoders.min));
    encoders.at_start = std::clamp(beside.planned, encoders.min, encoders.max);
    LaunchOptions job{.ranks = given->ranks,
                      .words = given->words,
                      .limits = given->limits,
                      .command = words_again(*given),
                      .encoders = encoders};
    if (!beside.is_read) job.encoders = {};  // the ranks say what is wrong
    if (job.encoders.max > 0) {
      TRIB_REQUIRE(!beside.words.empty(), .what = "app: there is nothing for encoders to do",
                   .where = "--encoders", .found = given->words.front(),
                   .expected = "train, with a module whose placement is flow",
                   .fix = "add parallel.vision.placement=flow, or leave --encoders out");
      job.encoder_words = std::move(beside.words);
    }
    const int code = run_ranks(job);
    if (code == 0)
      answer.give({{"ranks", given->ranks}, {"verb", given->words.front()}, {"exit_code", code}});
    return static_cast<ExitCode>(code);
  };
}

}  // namespace tributary::app
