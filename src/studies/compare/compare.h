#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/study/study.h"
#include "plan/certificate.h"

namespace tributary::studies {

/// What the simulator of plan files says of the plan of a method that was found by tables.
enum class PlanFile {
  kNotAsked,
  kFits,      // its form is one of theirs, and fits as the method has it
  kChanged,   // it fits with parameters sharded, layers recomputed, or both
  kTooLarge,  // it does not fit
  kNoForm,    // plan files have no such form
};

/// What one method reaches in one setting with the best plan of its own space.
struct MethodResult {
  std::string method = {};
  std::string source = {};
  plan::Certificate certificate = {};  // of the mean step
  std::string plan = {};
  double step_s = 0;                        // 0: no plan
  double mfu = 0;                           // model FLOPs over those of the devices at their peak
  std::optional<double> idle_share = {};    // of the devices' time
  std::optional<double> bubble_share = {};  // of it, within the pipelines of the replicas
  std::optional<double> occupancy = {};     // of a graph of modules: Occupancy::mean
  std::optional<double> least_occupancy = {};
  double milliseconds = 0;  // of the search
  PlanFile plan_file = PlanFile::kNotAsked;
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

  [[nodiscard]] const MethodResult* find(std::string_view method) const;
};

/// A published figure beside what is found here.
struct FigureResult {
  config::PublishedFigure figure = {};
  std::optional<double> found = {};  // none: a method has no plan
  double deviation = 0;              // found / published - 1; 0 inside of a range
};

struct OrderResult {
  config::PublishedOrder order = {};
  std::vector<double> values = {};  // [ranked] seconds, MFUs, ...; 0: no plan
  bool holds = false;               // none is ahead of one before it, ties aside
  bool is_tie = false;              // it holds with two within a thousandth of the larger
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
  bool quick = false;       // the first setting alone, one batch, at most 64 samples and 16 devices
  bool plan_files = false;  // asks the simulator of plan files about the plans found by tables
  /// Called before each search.
  std::function<void(const std::string& setting, std::string_view method)> on_search = {};
};

/// The names that studies of a kind may list: what `config::read_study` asks for.
[[nodiscard]] std::vector<config::StudyMethod> study_methods(config::StudyKind kind);

/// Gives every method of a study its best plan in every setting.
///
/// errors: Fault::kInput naming a method that is not in the lists of baselines, or capacity_tokens
///         where `search` is listed, and as problem_of_model and sharing_of_model
[[nodiscard]] Comparison compare(const config::Study& study, const CompareOptions& options = {});

/// A number found within `tolerance` of the published one; of a range anything inside at its
/// printed decimals, and nothing else: a range is its own tolerance.
[[nodiscard]] bool is_kept(const FigureResult& result, double tolerance);

/// Published figures that are kept, and all of them.
struct FigureCount {
  std::int64_t within = 0;
  std::int64_t all = 0;
};
[[nodiscard]] FigureCount count_within(const Comparison& comparison, double tolerance);

}  // namespace tributary::studies
