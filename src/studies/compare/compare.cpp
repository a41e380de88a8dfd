#include "studies/compare/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/error.h"
#include "core/join.h"
#include "core/stopwatch.h"
#include "studies/compare/planned_methods.h"
#include "studies/methods/recompute_levels.h"
#include "studies/methods/sharing/sharing_baselines.h"
#include "studies/methods/sharing/sharing_of_model.h"

namespace tributary::studies {
namespace {

using config::StudyKind;
using config::StudySetting;

constexpr std::int64_t kQuickSamples = 64;
constexpr std::int64_t kQuickDevices = 16;

/// Whether a study needs tables of an encoder and a backbone: not where every method runs as a
/// plan. VeOmni takes its degrees from the setting, so only a study that names it has it.
bool wants_tables(const config::Study& study) {
  return study.methods.empty() ||
         std::any_of(study.methods.begin(), study.methods.end(), [](const std::string& name) {
           return name != kSearchMethod && name != kVeomniMethod;
         });
}

bool is_listed(const config::Study& study, std::string_view method) {
  return study.methods.empty() ||
         std::find(study.methods.begin(), study.methods.end(), method) != study.methods.end();
}

SettingResult result_of(const StudySetting& setting) {
  return {.name = setting.name,
          .model = setting.model.name,
          .cluster = setting.cluster.name,
          .devices = setting.devices,
          .global_samples = setting.global_samples};
}

double mfu_of(double flops, double step_s, const StudySetting& setting) {
  return flops / (step_s * static_cast<double>(setting.devices) *
                  setting.cluster.device.matrix_flops_per_s);
}

class StudyRunner {
 public:
  StudyRunner(const config::Study& study, const CompareOptions& options)
      : study_(study), options_(options) {}

  [[nodiscard]] SettingResult run(const StudySetting& setting) const {
    return study_.kind == StudyKind::kPipeline ? run_pipeline(setting) : run_sharing(setting);
  }

 private:
  [[nodiscard]] SettingResult run_pipeline(const StudySetting& setting) const {
    SettingResult result = result_of(setting);
    const auto note = [&](std::string_view method) {
      if (options_.on_search) options_.on_search(setting.name, method);
    };
    double flops = 0;
    if (wants_tables(study_)) {
      const std::vector<RecomputedTables> levels = levels_of(setting);
      const TrainingProblem& problem = levels.front().problem;
      result.tokens_per_sample = problem.costs.backbone.sample_shape;
      result.items_per_sample = problem.costs.encoder.sample_shape;
      flops = step_flops(problem, true);
      for (const PipelineBaseline& baseline : pipeline_baselines()) {
        if (!is_listed(study_, baseline.name)) continue;
        note(baseline.name);
        result.methods.push_back(solve(setting, baseline, levels, options_.plan_files));
      }
    } else {
      result.tokens_per_sample = mean_tokens(setting);
    }
    if (!study_.methods.empty() && is_listed(study_, kVeomniMethod)) {
      note(kVeomniMethod);
      result.methods.push_back(run_veomni(setting));
    }
    // Packs of a given capacity are not in its space: studies that list it are refused.
    if (is_listed(study_, kSearchMethod) && setting.capacity_tokens == 0) {
      note(kSearchMethod);
      result.methods.push_back(run_search(setting));
      // Beside methods of tables its FLOPs come from the tables, so that MFUs compare.
      MethodResult& found = result.methods.back();
      if (found.step_s > 0 && flops > 0) found.mfu = mfu_of(flops, found.step_s, setting);
    }
    return result;
  }

  static double mean_tokens(const StudySetting& setting) {
    double tokens = 0;
    for (const std::vector<simulate::SampleSize>& batch : batches_of(setting))
      for (const simulate::SampleSize& sample : batch) tokens += static_cast<double>(sample.tokens);
    return tokens / static_cast<double>(setting.batches * setting.global_samples);
  }

  static std::vector<RecomputedTables> levels_of(const StudySetting& setting) {
    ModelSetting model{.devices = setting.devices,
                       .batches = batches_of(setting),
                       .frozen = setting.frozen,
                       .memory = setting.memory};
    model.given = {setting.tp, setting.pp};
    model.capacity_tokens = static_cast<double>(setting.capacity_tokens);
    return recompute_levels(setting.model, setting.cluster, std::move(model), setting.recompute);
  }

  static MethodResult solve(const StudySetting& setting, const PipelineBaseline& baseline,
                            const std::vector<RecomputedTables>& levels, bool plan_files) {
    MethodResult method{.method = std::string(baseline.name),
                        .source = std::string(baseline.source)};
    const Stopwatch watch;
    const auto [answer, tables] = solve_levels(baseline, levels);
    method.milliseconds = 1e3 * watch.seconds();
    method.certificate = answer.certificate;
    if (answer.certificate.status == plan::Status::kInfeasible) return method;
    method.plan = answer.plan;
    method.step_s = seconds_of(answer.certificate.value);
    method.mfu = mfu_of(step_flops(tables->problem, baseline.encodes), method.step_s, setting);
    method.idle_share = std::max(0.0, 1 - answer.busy_share);
    method.bubble_share = answer.bubble_share;
    if (plan_files && baseline.role != BaselineRole::kReference)
      method.plan_file = judge_plan_file(setting, answer, tables->recompute);
    return method;
  }

  static double step_flops(const TrainingProblem& problem, bool encodes) {
    const Problem3d& costs = problem.costs;
    return static_cast<double>(costs.global_samples) *
           ((encodes ? costs.encoder.sample_flops : 0) + costs.backbone.sample_flops);
  }

  [[nodiscard]] SettingResult run_sharing(const StudySetting& setting) const {
    SettingResult result = result_of(setting);
    for (const std::int64_t tokens : setting.module_tokens)
      result.tokens_per_sample += static_cast<double>(tokens);
    result.items_per_sample = static_cast<double>(setting.model.modules.size());
    const std::vector<RecomputedSharing> levels = sharing_of(setting);
    for (const SharingBaseline& baseline : sharing_baselines()) {
      if (!is_listed(study_, baseline.name)) continue;
      if (options_.on_search) options_.on_search(setting.name, baseline.name);
      result.methods.push_back(solve(setting, baseline, levels));
    }
    return result;
  }

  /// A graph of modules with a level of recompute.
  struct RecomputedSharing {
    std::string name;  // as in plans
    plan::SharingProblem problem;
    double flops = 0;  // of a step
  };

  static std::vector<RecomputedSharing> sharing_of(const StudySetting& setting) {
    SharingSetting sharing{.name = setting.name,
                           .devices = setting.devices,
                           .global_samples = setting.global_samples,
                           .tokens = setting.module_tokens,
                           .units = setting.share_units,
                           .frozen = setting.frozen,
                           .memory = setting.memory};
    std::vector<RecomputedSharing> levels;
    const auto add = [&](const std::string& name, config::RecomputePlan level) {
      sharing.recompute = level;
      levels.push_back({name, sharing_of_model(setting.model, setting.cluster, sharing),
                        sharing_flops(setting.model, setting.cluster, sharing)});
    };
    if (setting.recompute) {
      add("", *setting.recompute);
    } else {
      add("", config::RecomputePlan::kNone);
      add(", layers recomputed", config::RecomputePlan::kFull);
    }
    return levels;
  }

  /// The first level of recompute with which the method has a plan: more only saves memory.
  static MethodResult solve(const StudySetting& setting, const SharingBaseline& baseline,
                            const std::vector<RecomputedSharing>& levels) {
    MethodResult method{.method = std::string(baseline.name),
                        .source = std::string(baseline.source)};
    const Stopwatch watch;
    std::int64_t evaluations = 0;
    for (const auto& [name, problem, flops] : levels) {
      const SharingAnswer answer = baseline.solve(problem);
      evaluations += answer.certificate.evaluations;
      method.certificate = answer.certificate;
      if (answer.certificate.status == plan::Status::kInfeasible) {
        method.certificate.limit += name;
        continue;
      }
      method.step_s = seconds_of(answer.certificate.value);
      method.mfu = mfu_of(flops, method.step_s, setting);
      method.plan = describe_waves(problem, answer) + name;
      if (const std::optional<Occupancy> occupancy = occupancy_of(problem, answer)) {
        method.occupancy = occupancy->mean;
        method.min_occupancy = occupancy->min;
      }
      break;
    }
    method.certificate.evaluations = evaluations;
    method.milliseconds = 1e3 * watch.seconds();
    return method;
  }

  static std::string describe_waves(const plan::SharingProblem& problem,
                                    const SharingAnswer& answer) {
    std::string text;
    for (const BaselineWave& wave : answer.waves) {
      std::string modules;
      for (const WaveModule& each : wave.modules) {
        modules += str(modules.empty() ? "" : " + ", problem.modules[each.module].name, " on ",
                       each.devices);
        if (each.units < problem.units)
          modules +=
              str(" x ", std::llround(100.0 * double(each.units) / double(problem.units)), " %");
      }
      text += str(text.empty() ? "" : "; ", modules);
    }
    return text;
  }

  const config::Study& study_;
  const CompareOptions& options_;
};

StudySetting shorten(StudySetting setting) {
  setting.batches = 1;
  setting.global_samples = std::min(setting.global_samples, kQuickSamples);
  setting.devices = std::min(setting.devices, kQuickDevices);
  return setting;
}

void check_methods(const config::Study& study) {
  const std::vector<config::StudyMethod> known = study_methods(study.kind);
  for (const std::string& name : study.methods) {
    TRIB_REQUIRE(std::any_of(known.begin(), known.end(),
                             [&](const auto& method) { return method.name == name; }),
                 .what = "studies: unknown method", .where = str("study ", study.name, " methods"),
                 .found = name,
                 .expected = str("one of ", join(known, ", ", &config::StudyMethod::name)));
  }
  const bool wants_search =
      study.against == kSearchMethod || (!study.methods.empty() && is_listed(study, kSearchMethod));
  if (!wants_search) return;
  for (const StudySetting& setting : study.settings) {
    TRIB_REQUIRE(setting.capacity_tokens == 0,
                 .what = "studies: search has no packed sequences of a given capacity",
                 .where = str("study ", study.name, " settings ", setting.name, " capacity_tokens"),
                 .found = str(setting.capacity_tokens), .expected = "no such key beside search",
                 .fix = "leave out capacity_tokens, or search of the methods");
  }
}

}  // namespace

const MethodResult* SettingResult::find(std::string_view method) const {
  const auto found = std::find_if(methods.begin(), methods.end(),
                                  [&](const MethodResult& each) { return each.method == method; });
  return found == methods.end() ? nullptr : &*found;
}

std::vector<config::StudyMethod> study_methods(StudyKind kind) {
  std::vector<config::StudyMethod> methods;
  const auto add = [&](std::string_view name, bool in_all) {
    methods.push_back({std::string(name), in_all, /*former_name=*/{}});
  };
  if (kind == StudyKind::kPipeline) {
    for (const PipelineBaseline& each : pipeline_baselines()) add(each.name, true);
    add(kVeomniMethod, false);
    methods.push_back({std::string(kSearchMethod), /*in_all=*/true, /*former_name=*/"exact"});
  } else {
    for (const SharingBaseline& each : sharing_baselines()) add(each.name, true);
  }
  return methods;
}

Comparison compare(const config::Study& study, const CompareOptions& options) {
  check_methods(study);
  Comparison comparison{
      .name = study.name, .source = study.source, .notes = study.notes, .against = study.against};
  const StudyRunner runner(study, options);
  for (const StudySetting& setting : study.settings) {
    comparison.settings.push_back(runner.run(options.quick ? shorten(setting) : setting));
    if (options.quick) break;
  }
  judge_figures(study, comparison);
  return comparison;
}

}  // namespace tributary::studies
