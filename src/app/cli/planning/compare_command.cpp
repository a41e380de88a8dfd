#include <cctype>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <unistd.h>

#include "app/cli/commands.h"
#include "app/cli/output_file.h"
#include "app/cli/planning/show_quantities.h"
#include "app/cli/planning/show_runs.h"
#include "app/compare/run_study.h"
#include "app/report/compare_page.h"
#include "app/report/html.h"
#include "app/report/write_report.h"
#include "core/error.h"
#include "studies/compare/write_comparison.h"

namespace tributary::app {
namespace {

using studies::Comparison;
using studies::MethodResult;
using studies::SettingResult;

constexpr double kTolerance = 0.15;

struct CompareArguments {
  std::string study;
  std::string output;
  bool json = false;
  bool quick = false;
  bool plan_files = false;
  bool run = false;
  std::int64_t rounds = 3;
  std::string profile;
  std::string work;
  GivenOptions given = {};
};

/// Shows what is being searched: on a terminal in one line that is redrawn, else a line per
/// setting.
class Progress {
 public:
  explicit Progress(std::size_t settings)
      : settings_(settings), is_terminal_(isatty(STDERR_FILENO) == 1) {}
  ~Progress() {
    if (is_terminal_ && settings_begun_ > 0) std::cerr << kClear << std::flush;
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const std::string& setting, std::string_view method) {
    const bool is_new = setting != setting_ || settings_begun_ == 0;
    if (is_new) ++settings_begun_;
    setting_ = setting;
    const std::string line = str("compare: ", settings_begun_, " of ", settings_, ": ", setting);
    if (is_terminal_)
      std::cerr << kClear << line.substr(0, 80) << ": " << method << std::flush;
    else if (is_new)
      std::cerr << line << std::endl;
  }

 private:
  static constexpr const char* kClear = "\r\x1b[K";

  std::size_t settings_;
  bool is_terminal_;
  std::size_t settings_begun_ = 0;
  std::string setting_;
};

/// The name of a column of the page as a column of the terminal: `Idle` becomes `idle`.
std::string in_small_letters(std::string name) {
  for (char& letter : name) letter = static_cast<char>(std::tolower(letter));
  return name;
}

void print_table(const SettingResult& setting, const std::string& against) {
  const MethodResult* base = setting.find(against);
  std::size_t width = 6;
  for (const MethodResult& method : setting.methods) width = std::max(width, method.method.size());
  std::cout << "  " << padded("method", width) << "       step";
  if (base != nullptr) std::cout << "    ratio";
  const TimeColumn time = time_column(setting);
  std::cout << "      mfu" << padded(in_small_letters(time.name), 11, true)
            << "  evaluations  plan\n";
  for (const MethodResult& method : fastest_first(setting)) {
    std::cout << "  " << padded(method.method, width);
    if (method.step_s <= 0) {
      std::cout << "    no plan: " << method.certificate.limit << '\n';
      continue;
    }
    std::cout << padded(show_time(method.step_s), 11, true);
    if (base != nullptr)
      std::cout << padded(base->step_s > 0 ? show_figure(config::FigureQuantity::kSpeedup,
                                                         base->step_s / method.step_s)
                                           : "–",
                          9, true);
    std::cout << padded(show_percent(method.mfu), 9, true)
              << padded(method.*time.share ? show_percent(*(method.*time.share)) : "–", 11, true)
              << padded(str(method.certificate.evaluations), 13, true) << "  " << method.plan
              << '\n';
  }
  const std::string note = studies::note_on_search(setting);
  if (!note.empty()) std::cout << "  note: " << note << '\n';
}

void print_setting(const Comparison& comparison, const SettingResult& setting) {
  std::cout << '\n'
            << setting.name << ": " << setting.model << " on " << setting.devices << " devices of "
            << setting.cluster << ", " << setting.global_samples << " samples of "
            << show_number(setting.tokens_per_sample) << " tokens\n";
  if (setting.run)
    print_measured(comparison, setting);
  else
    print_table(setting, comparison.against);
}

void print_figures(const Comparison& comparison) {
  for (const studies::FigureResult& result : comparison.figures) {
    std::cout << "  " << (studies::is_kept(result, kTolerance) ? "ok  " : "off ")
              << (result.figure.where.empty() ? "" : result.figure.where + ": ")
              << describe_figure(result.figure) << ": published " << show_published(result.figure)
              << ", found "
              << (result.found ? show_figure(result.figure, *result.found) : "no value");
    if (result.found) std::cout << ", deviation " << show_percent(result.deviation);
    if (result.measured) std::cout << ", measured " << show_figure(result.figure, *result.measured);
    std::cout << '\n';
  }
  for (const studies::OrderResult& result : comparison.orders) {
    std::cout << "  "
              << (result.is_tie  ? "tie "
                  : result.holds ? "ok  "
                                 : "off ")
              << (result.order.where.empty() ? "" : result.order.where + ": ") << "order of "
              << subject_of(result) << ": " << show_order(result, ", ");
    if (!result.measured.empty())
      std::cout << ", measured: " << (result.measured_holds ? "ok" : "off");
    std::cout << '\n';
  }
}

void print_as_text(const Comparison& comparison) {
  std::cout << comparison.name << '\n';
  if (!comparison.source.empty()) std::cout << "source: " << comparison.source << '\n';
  if (!comparison.notes.empty()) std::cout << "inputs: " << comparison.notes << '\n';
  for (const SettingResult& setting : comparison.settings) print_setting(comparison, setting);
  if (comparison.figures.empty() && comparison.orders.empty()) return;
  const studies::FigureCount count = studies::count_within(comparison, kTolerance);
  std::cout << "\npublished and found: " << count.within << " of " << count.all << " within "
            << show_percent(kTolerance) << ", of a range inside\n";
  print_figures(comparison);
}

Comparison simulate_study(const config::Study& study, const CompareArguments& arguments) {
  Progress progress(arguments.quick ? 1 : study.settings.size());
  return studies::compare(study,
                          {.quick = arguments.quick,
                           .plan_files = arguments.plan_files,
                           .on_search = [&](const std::string& setting, std::string_view method) {
                             progress.show(setting, method);
                           }});
}

/// Refuses options that have no effect beside the others.
void check_arguments(const CompareArguments& arguments) {
  arguments.given.require({"--rounds", "--profile", "--work"}, "--run");
  if (!arguments.run) return;
  arguments.given.refuse({"--quick", "--plan-files"},
                         "--run, which runs whole settings by their plan files", "one of both");
  constexpr std::int64_t kMaxRounds = 100;
  TRIB_REQUIRE(arguments.rounds >= 1 && arguments.rounds <= kMaxRounds,
               .what = "app: value cannot be used", .where = "--rounds",
               .found = str(arguments.rounds), .expected = str("1 to ", kMaxRounds));
}

RunStudy run_on_processes(const config::Study& study, const CompareArguments& arguments) {
  const std::string stem = std::filesystem::path(arguments.study).stem().string();
  return run_study(study, {.where = arguments.study,
                           .folder = arguments.work.empty() ? "runs/" + stem : arguments.work,
                           .profile = arguments.profile,
                           .rounds = arguments.rounds});
}

ExitCode run_compare(const CompareArguments& arguments) {
  check_arguments(arguments);
  const config::Study study = config::read_study(arguments.study, studies::study_methods);
  check_output(arguments.output, {arguments.study, arguments.profile});
  const RunStudy ended = arguments.run ? run_on_processes(study, arguments)
                                       : RunStudy{.comparison = simulate_study(study, arguments)};
  if (!arguments.output.empty())
    write_report_file(write_compare_page(ended.comparison), arguments.output);
  if (arguments.json) {
    std::cout << studies::write_comparison(ended.comparison);
  } else {
    print_as_text(ended.comparison);
    if (!arguments.output.empty()) std::cout << '\n' << arguments.output << '\n';
  }
  return ended.code;
}

}  // namespace

Run declare_compare(Verb& verb) {
  const auto arguments = std::make_shared<CompareArguments>();
  verb.positional("STUDY.yaml", arguments->study,
                  "methods, models, clusters and data: docs/formats/study.md");
  verb.option("-o,--output", arguments->output, "write tables and bars as one HTML file");
  verb.flag("--json", arguments->json,
            "print one JSON object: docs/formats/study.md says what is in it");
  verb.flag("--quick", arguments->quick,
            "the first setting alone, one batch, at most 64 samples and 16 devices");
  verb.flag(
      "--plan-files", arguments->plan_files,
      "ask the simulator of plan files about each plan found by tables: `plan_file` in --json");
  verb.flag("--run", arguments->run,
            "train the methods on processes of this machine, in turn, each with its own plan, and "
            "simulate them by measured costs: settings with `run`");
  verb.option("--rounds", arguments->rounds, "runs of each method, with --run");
  verb.option("--profile", arguments->profile,
              "of this machine, with --run, a file of `tributary profile`; default: what "
              "profile.json in the work folder lacks is measured");
  verb.option("--work", arguments->work,
              "folder of profiles, plans and runs, with --run; default: runs/ and the name of the "
              "study's file");
  verb.example(
      "tributary compare configs/studies/small.yaml -o compare.html\n"
      "  tributary compare configs/studies/demo_processes.yaml --run -o runs/compare.html");
  arguments->given = verb.given();
  return [arguments] { return run_compare(*arguments); };
}

}  // namespace tributary::app
