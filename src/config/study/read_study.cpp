#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "config/reading/artifact_object.h"
#include "config/reading/yaml_json.h"
#include "config/study/study.h"
#include "config/study/study_model.h"
#include "config/study/study_names.h"
#include "core/error.h"

namespace tributary::config {
namespace {

/// Models and clusters that settings refer to by name.
struct Named {
  std::map<std::string, StudyModel> models;
  std::map<std::string, Cluster> clusters;  // by path, each read once
  std::string folder;
};

/// Reads the cluster at the key `cluster`, a path from the study's folder.
Cluster find_cluster(ArtifactObject& json, Named& named) {
  const std::string path = json.text("cluster", std::nullopt);
  if (path.empty()) return {};
  const std::string whole = (std::filesystem::path(named.folder) / path).string();
  const auto found = named.clusters.find(whole);
  if (found != named.clusters.end()) return found->second;
  return named.clusters[whole] = read_cluster(whole);
}

/// Refuses keys that only the methods of the other kind read. A sample of a sharing study has the
/// tokens of its modules, so nothing is drawn.
void refuse_of_other_kind(ArtifactObject& json, StudyKind kind) {
  if (kind == StudyKind::kPipeline) {
    if (json.has("share_units")) json.refuse("share_units", "no such key: `sharing` alone has it");
    return;
  }
  for (const char* key :
       {"tp", "pp", "ulysses", "ep", "capacity_tokens", "data", "batches", "seed", "run"})
    if (json.has(key)) json.refuse(key, "no such key: `pipeline` alone has it");
}

StudySetting read_setting(ArtifactObject json, StudyKind kind, Named& named) {
  StudySetting setting{.name = json.text("name", std::nullopt)};
  const std::string model = json.text("model", std::nullopt);
  if (const auto found = named.models.find(model); found != named.models.end()) {
    setting.model = found->second.graph;
    setting.module_tokens = found->second.module_tokens;
    if (kind == StudyKind::kSharing && setting.module_tokens.empty())
      json.refuse("model", "a model with `modules`, which say the tokens of a sample");
  } else if (json.has("model")) {
    json.refuse("model", "a name of `models`");
  }
  setting.cluster = find_cluster(json, named);
  setting.devices =
      json.whole("devices", std::nullopt, {1, std::max<std::int64_t>(setting.cluster.devices, 1)});
  setting.global_samples = json.whole("global_samples", std::nullopt, {1, 1 << 20});
  setting.batches = json.whole("batches", setting.batches, {1, 64});
  setting.seed = json.whole("seed", setting.seed, {0, std::int64_t{1} << 53});
  setting.data = read_study_data(json);
  setting.frozen = read_names(json, "frozen", "a list of names of modules");
  for (const std::string& name : setting.frozen) {
    if (setting.model.find(name) == nullptr) json.refuse("frozen", "names of the model's modules");
  }
  if (json.has("recompute"))
    setting.recompute =
        json.choice<RecomputePlan>("recompute", std::nullopt, {"none", "selective", "full"});
  refuse_of_other_kind(json, kind);
  setting.tp = json.whole("tp", 0, {0, 1 << 10});
  setting.pp = json.whole("pp", 0, {0, 1 << 10});
  setting.ulysses = json.whole("ulysses", 1, {1, 1 << 10});
  setting.ep = json.whole("ep", 1, {1, 1 << 10});
  setting.capacity_tokens = json.whole("capacity_tokens", 0, {0, 1 << 24});
  if (json.has("memory_bytes"))
    setting.memory = Bytes{json.whole("memory_bytes", std::nullopt, {1, std::int64_t{1} << 50})};
  setting.share_units = json.whole("share_units", setting.share_units, {1, 100});
  setting.run_samples = json.whole("run_samples", 0, {0, std::int64_t{1} << 50});
  setting.run = read_study_run(json, named.folder);
  json.refuse_unknown();
  return setting;
}

/// Reads a number or the two ends of a range. It is above 0, because deviations are relative to it.
void read_value(ArtifactObject& json, PublishedFigure& figure) {
  const Json* value = json.find("value");
  if (value != nullptr && value->is_number()) {
    figure.min = figure.max = value->get<double>();
  } else if (value != nullptr && value->is_array() && value->size() == 2 &&
             (*value)[0].is_number() && (*value)[1].is_number()) {
    figure.min = (*value)[0].get<double>();
    figure.max = (*value)[1].get<double>();
  }
  const bool is_good = figure.min > 0 && figure.min <= figure.max;
  if (!is_good) json.refuse("value", "a number above 0, or [least, most] of such");
}

/// Whether a number has at most `digits` decimals.
bool is_printed(double number, std::int64_t digits) {
  const double scaled = number * std::pow(10.0, static_cast<double>(digits));
  return std::abs(scaled - std::round(scaled)) < 1e-6;
}

/// Reads two or more names, each once.
std::vector<std::string> read_several(ArtifactObject& json, const std::string& key,
                                      const std::string& expected) {
  std::vector<std::string> names = read_names(json, key, "a list of names");
  if (names.size() < 2) json.refuse(key, expected);
  if (std::set<std::string>(names.begin(), names.end()).size() < names.size())
    json.refuse(key, "each name once");
  return names;
}

PublishedFigure read_figure(ArtifactObject json, StudyKind kind) {
  PublishedFigure figure{.where = json.text("where", "")};
  figure.quantity =
      json.choice<FigureQuantity>("quantity", FigureQuantity::kSpeedup,
                                  {"speedup", "hours", "mfu", "mfu_gap", "idle_reduction",
                                   "bubble_reduction", "occupancy", "min_occupancy"});
  if (figure.is_of_occupancy() && kind != StudyKind::kSharing)
    json.refuse("quantity", "another one: `sharing` alone counts occupancy");
  if (json.has("settings")) {
    figure.settings = read_several(json, "settings", "two settings at least");
  } else {
    figure.setting = json.text("setting", std::nullopt);
  }
  figure.method = json.text("method", std::nullopt);
  figure.against = json.text("against", "");
  figure.against_setting = json.text("against_setting", "");
  if (!figure.settings.empty() && !figure.against_setting.empty())
    json.refuse("against_setting", "no such key beside `settings`");
  const bool is_alone = figure.quantity == FigureQuantity::kHours ||
                        figure.quantity == FigureQuantity::kMfu || figure.is_of_occupancy();
  if (!is_alone && !figure.is_set_against())
    json.refuse("against", "the method, or `against_setting`, that it is set against");
  if (!figure.against.empty() && figure.against == figure.method && figure.against_setting.empty())
    json.refuse("against", "another method");
  read_value(json, figure);
  if (json.has("digits")) {
    figure.digits = json.whole("digits", std::nullopt, {0, 6});
    if (figure.min == figure.max) json.refuse("digits", "no such key beside a single number");
    if (!is_printed(figure.min, *figure.digits) || !is_printed(figure.max, *figure.digits))
      json.refuse("digits", "the decimals of both ends of the range");
  }
  json.refuse_unknown();
  return figure;
}

/// Reads pairs of a method and the one that it is compared with: [[method, against], ...].
std::vector<RankedMethod> read_speedups(ArtifactObject& json, const std::string& setting) {
  std::vector<RankedMethod> ranked;
  const Json* pairs = json.find("speedups");
  bool is_good = pairs->is_array() && pairs->size() >= 2;
  for (std::size_t i = 0; is_good && i < pairs->size(); ++i) {
    const Json& pair = (*pairs)[i];
    is_good = pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string() &&
              pair[0] != pair[1];
    if (is_good)
      ranked.push_back({setting, pair[0].get<std::string>(), pair[1].get<std::string>()});
    is_good = is_good && std::ranges::count(ranked, ranked.back()) == 1;
  }
  if (!is_good)
    json.refuse("speedups", "two or more [method, another that it is set against], each once");
  return ranked;
}

/// Reads the quantity by which an order ranks.
RankedBy read_rank(ArtifactObject& json, StudyKind kind) {
  enum class MethodRank { kStep, kOccupancy };
  const auto rank = json.choice<MethodRank>("by", MethodRank::kStep, {"step", "occupancy"});
  if (rank == MethodRank::kStep) return RankedBy::kStep;
  if (kind != StudyKind::kSharing) json.refuse("by", "step: `sharing` alone counts occupancy");
  return RankedBy::kOccupancy;
}

/// Reads an order: `setting` with `methods` or `speedups`, or `method` with `settings`.
PublishedOrder read_order(ArtifactObject& json, StudyKind kind) {
  PublishedOrder order{.where = json.text("where", "")};
  if (json.has("settings")) {
    const std::string method = json.text("method", std::nullopt);
    const std::string against = json.text("against", "");
    if (!against.empty() && against == method) json.refuse("against", "another method");
    order.by = against.empty() ? RankedBy::kMfu : RankedBy::kSpeedup;
    for (const std::string& setting : read_several(json, "settings", "two settings at least"))
      order.ranked.push_back({setting, method, against});
  } else if (const std::string setting = json.text("setting", std::nullopt); json.has("speedups")) {
    order.by = RankedBy::kSpeedup;
    order.ranked = read_speedups(json, setting);
  } else {
    order.by = read_rank(json, kind);
    for (const std::string& method : read_several(json, "methods", "two methods at least"))
      order.ranked.push_back({setting, method, ""});
  }
  json.refuse_unknown();
  return order;
}

/// Gives each setting the keys of `defaults` that it lacks.
Json merge_defaults(const Json& root) {
  Json merged = root;
  const auto defaults = root.find("defaults");
  if (defaults == root.end() || !defaults->is_object()) return merged;
  const auto settings = merged.find("settings");
  if (settings == merged.end() || !settings->is_array()) return merged;
  for (Json& setting : *settings) {
    if (!setting.is_object()) continue;
    for (const auto& [key, value] : defaults->items())
      if (!setting.contains(key)) setting[key] = value;
  }
  return merged;
}

/// Replaces the former names of methods, which studies may still use.
void rename_former(Study& study, const std::vector<StudyMethod>& known) {
  const auto rename = [&](std::string& name) {
    for (const StudyMethod& method : known)
      if (!name.empty() && name == method.former_name) name = method.name;
  };
  for (std::string& method : study.methods) rename(method);
  rename(study.against);
  for (PublishedFigure& figure : study.figures) {
    rename(figure.method);
    rename(figure.against);
  }
  for (PublishedOrder& order : study.orders)
    for (auto& ranked : order.ranked) {
      rename(ranked.method);
      rename(ranked.against);
    }
}

}  // namespace

Study parse_study(std::string_view text, const std::string& where, const StudyMethods& methods) {
  const Json given = parse_yaml_as_json(text, where);
  Problems problems;
  const Json json = merge_defaults(given);
  ArtifactObject root(json, where, "", problems);
  problems.raise_if_any(where);
  const std::string format = root.text("format", "");
  TRIB_REQUIRE(format == kStudyFormat, .what = "config: not a study of this version",
               .where = root.where("format"), .found = escaped(format),
               .expected = std::string(kStudyFormat));
  Study study{.name = root.text("name", std::nullopt),
              .source = root.text("source", ""),
              .notes = root.text("notes", "")};
  study.kind = root.choice<StudyKind>("kind", StudyKind::kPipeline, {"pipeline", "sharing"});
  study.methods = read_names(root, "methods", "a list of names of methods");
  study.against = root.text("against", "");
  (void)root.object("defaults", false);
  Named named{
      .models = {}, .clusters = {}, .folder = std::filesystem::path(where).parent_path().string()};
  named.models = read_study_models(root, where, named.folder);
  for (ArtifactObject& setting : root.items("settings"))
    study.settings.push_back(read_setting(std::move(setting), study.kind, named));
  if (study.settings.empty()) root.refuse("settings", "a list of one setting at least");
  for (ArtifactObject& figure : root.items("figures"))
    study.figures.push_back(read_figure(std::move(figure), study.kind));
  for (ArtifactObject& order : root.items("orders")) {
    if (PublishedOrder read = read_order(order, study.kind); !read.ranked.empty())
      study.orders.push_back(std::move(read));
  }
  root.refuse_unknown();
  check_settings(root, study, problems);
  const std::vector<StudyMethod> known = methods ? methods(study.kind) : std::vector<StudyMethod>{};
  rename_former(study, known);
  check_methods(root, study, known, problems);
  problems.raise_if_any(where);
  return study;
}

Study read_study(const std::string& path, const StudyMethods& methods) {
  return parse_study(read_artifact(path, "a study, docs/formats/study.md"), path, methods);
}

}  // namespace tributary::config
