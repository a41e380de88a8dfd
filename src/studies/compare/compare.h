#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/study/study.h"
#include "plan/certificate.h"

namespace tributary::studies {

/// What the plan simulator says about a plan that a method found by tables.
enum class PlanFile {
  kNotAsked,
  kFits,      // plans have its form, and it fits as the method has it
  kChanged,   // it fits with parameters sharded, layers recomputed, or both
  kTooLarge,  // it does not fit
  kNoForm,    // plans do not have such a form
};

/// What a method did on processes of this machine. Methods with one plan share its runs.
struct MethodRun {
  std::string not_run = {};           // why no process ran it; empty: processes did
  std::string same_as = {};           // an earlier method whose plan, and runs, these are
  std::vector<double> rounds_s = {};  // [rounds that ended well] the median step of each
  std::string failure = {};           // the error of a run; no other run follows it
  int exit_code = 0;                  // of that run
  double loss_difference = 0;         // the max relative one to the first method that ran
  std::string plan_file = {};
  std::string directory = {};  // of its last run

  /// The median over the rounds; null where no run ended well.
  [[nodiscard]] std::optional<double> median_s() const;
};

/// The result of one method in one setting, for the best plan of its own space.
struct MethodResult {
  std::string method = {};
  std::string source = {};
  plan::Certificate certificate = {};  // for the mean step
  std::string plan = {};
  double step_s = 0;                        // 0: no plan
  double mfu = 0;                           // model FLOPs over peak FLOPs of the devices
  std::optional<double> idle_share = {};    // of the devices' time
  std::optional<double> bubble_share = {};  // of idle time, within the pipelines of replicas
  std::optional<double> occupancy = {};     // for a graph of modules: Occupancy::mean
  std::optional<double> min_occupancy = {};
  double milliseconds = 0;  // of the search
  PlanFile plan_file = PlanFile::kNotAsked;
  std::optional<MethodRun> run = {};  // where the setting ran: step_s is simulated for this machine
};

/// How many pairs of methods the simulator puts in the order that was measured. Methods that share
/// their runs count once.
struct PairOrder {
  std::int64_t pairs = 0;
  std::int64_t right = 0;
  std::int64_t apart = 0;  // pairs of which all rounds of one are faster than all of the other
  std::int64_t apart_right = 0;  // of these
};

/// How the methods of a setting ran on this machine.
struct SettingRun {
  std::int64_t rounds = 0;  // runs of each method, which alternate
  std::int64_t steps = 0;   // of a run
  std::int64_t warm_up_steps = 0;
  std::string config = {};
  std::string profile = {};
  std::string note = {};  // a warning about the profile
  PairOrder order = {};
};

struct SettingResult {
  std::string name = {};
  std::string model = {};
  std::string cluster = {};
  std::int64_t devices = 1;
  std::int64_t global_samples = 1;
  double tokens_per_sample = 0;
  double items_per_sample = 0;
  std::vector<MethodResult> methods = {};
  std::optional<SettingRun> run = {};  // null: by simulation alone

  [[nodiscard]] const MethodResult* find(std::string_view method) const;
};

/// A published figure and the value found here.
struct FigureResult {
  config::PublishedFigure figure = {};
  std::optional<double> found = {};     // null: a method has no plan
  double deviation = 0;                 // found / published - 1; 0 inside a range
  std::optional<double> measured = {};  // on processes; null: a method did not run
};

struct OrderResult {
  config::PublishedOrder order = {};
  std::vector<double> values = {};    // [ranked] seconds, MFUs, ...; 0: no plan
  bool holds = false;                 // none is ahead of one before it, except for ties
  bool is_tie = false;                // it holds only with two values within a thousandth
  std::vector<double> measured = {};  // [ranked] on processes; empty: nothing ran
  bool measured_holds = false;
};

struct Comparison {
  std::string name = {};
  std::string source = {};
  std::string notes = {};
  std::string against = {};
  std::vector<SettingResult> settings = {};
  std::vector<FigureResult> figures = {};
  std::vector<OrderResult> orders = {};
};

struct CompareOptions {
  bool quick = false;       // only the first setting, one batch, at most 64 samples and 16 devices
  bool plan_files = false;  // simulates plans found by tables as plan files
  /// Called before each search.
  std::function<void(const std::string& setting, std::string_view method)> on_search = {};
};

/// The method names that studies of a kind may list, for `config::read_study`.
[[nodiscard]] std::vector<config::StudyMethod> study_methods(config::StudyKind kind);

/// Finds the best plan of every method of a study in every setting.
///
/// errors: Fault::kInput naming a method that is not in the lists of baselines, or capacity_tokens
///         where `search` is listed; as problem_of_model and sharing_of_model
[[nodiscard]] Comparison compare(const config::Study& study, const CompareOptions& options = {});

/// Whether a number is within `tolerance` of the published one. A range is its own tolerance: the
/// number must be inside at the printed decimals.
[[nodiscard]] bool is_kept(const FigureResult& result, double tolerance);

/// The number of published figures that are kept, and of all.
struct FigureCount {
  std::int64_t within = 0;
  std::int64_t all = 0;
};
[[nodiscard]] FigureCount count_within(const Comparison& comparison, double tolerance);

/// Compares published figures and orders with the results of their settings. `run_samples` and
/// `devices` come from the study.
void judge_figures(const config::Study& study, Comparison& comparison);

}  // namespace tributary::studies
