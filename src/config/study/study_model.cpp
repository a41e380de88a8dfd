#include "config/study/study_model.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace tributary::config {
namespace {

constexpr WholeRange kSizes{1, 1 << 24};

/// Reads a module given only by its blocks, as in the tables of papers.
ModuleNode read_module(ArtifactObject& json, std::vector<std::int64_t>& tokens) {
  ModuleNode node{.name = json.text("name", std::nullopt)};
  LayerShape block{.kind = LayerKind::kBlock};
  block.width = json.whole("width", std::nullopt, kSizes);
  block.heads = json.whole("heads", std::max<std::int64_t>(block.width / 64, 1), kSizes);
  if (!json.has("head_width") && block.width % block.heads != 0)
    json.refuse("heads", str("a divisor of the width ", block.width, ", which ", block.heads,
                             " is not; or head_width beside it"));
  block.kv_heads = json.whole("kv_heads", block.heads, kSizes);
  if (block.heads % block.kv_heads != 0)
    json.refuse("kv_heads", str("a number that divides the ", block.heads, " heads"));
  block.head_width =
      json.whole("head_width", std::max<std::int64_t>(block.width / block.heads, 1), kSizes);
  block.mlp_width = json.whole("mlp_width", 4 * block.width, kSizes);
  block.mlp_matrices = json.whole("mlp_matrices", 2, {2, 3});
  block.causal = json.flag("causal", false);
  node.layers.push_back({.shape = block, .layers = json.whole("layers", std::nullopt, {1, 4096})});
  const std::int64_t vocab = json.whole("vocab", 0, {0, 1 << 24});
  if (vocab > 0) {
    node.layers.insert(
        node.layers.begin(),
        {.shape = {.kind = LayerKind::kEmbedding, .width = block.width, .vocab = vocab}});
    node.layers.push_back(
        {.shape = {.kind = LayerKind::kHead, .width = block.width, .vocab = vocab}});
  }
  tokens.push_back(json.whole("tokens", std::nullopt, kSizes));
  return node;
}

/// Reads modules that are listed after those they depend on.
StudyModel read_modules(const std::string& name, ArtifactObject json) {
  StudyModel model{.graph = {.name = name}, .module_tokens = {}};
  for (ArtifactObject& item : json.items("modules")) {
    const ModuleNode node = read_module(item, model.module_tokens);
    if (model.graph.find(node.name) != nullptr) item.refuse("name", "a name of its own");
    if (const Json* after = item.find("after")) {
      bool is_good = after->is_array();
      for (const Json& before : is_good ? *after : Json::array()) {
        is_good =
            is_good && before.is_string() && model.graph.find(before.get<std::string>()) != nullptr;
        if (is_good) model.graph.edges.push_back({before.get<std::string>(), node.name});
      }
      if (!is_good) item.refuse("after", "a list of names of modules that stand before this one");
    }
    item.refuse_unknown();
    model.graph.modules.push_back(node);
  }
  if (model.graph.modules.empty()) json.refuse("modules", "a list of modules");
  json.refuse_unknown();
  return model;
}

std::filesystem::path seen_from(const std::string& folder, const std::string& path) {
  return std::filesystem::path(folder) / path;
}

bool exists(const std::string& folder, const std::string& path) {
  return !path.empty() && std::filesystem::exists(seen_from(folder, path));
}

ModuleGraph read_path(const std::string& path, const std::string& folder) {
  const std::filesystem::path whole = seen_from(folder, path);
  return std::filesystem::is_directory(whole) ? read_graph_of_model(whole.string())
                                              : read_module_graph(whole.string());
}

Draw read_draw(ArtifactObject& json, const std::string& key, std::optional<Draw> standard) {
  static const std::vector<std::pair<std::string, DrawKind>> kinds = {
      {"uniform", DrawKind::kUniform},
      {"log_uniform", DrawKind::kLogUniform},
      {"log_normal", DrawKind::kLogNormal},
      {"exponential", DrawKind::kExponential}};
  const Json* value = json.find(key);
  if (value == nullptr && standard) return *standard;
  if (value != nullptr && value->is_number() && value->get<double>() >= 0)
    return {DrawKind::kConstant, value->get<double>(), 0};
  if (value != nullptr && value->is_object() && value->size() == 1) {
    for (const auto& [name, kind] : kinds) {
      const auto found = value->find(name);
      if (found == value->end() || !found->is_array() || found->size() != 2) continue;
      if (!(*found)[0].is_number() || !(*found)[1].is_number()) continue;
      const Draw draw{kind, (*found)[0].get<double>(), (*found)[1].get<double>()};
      const bool needs_positive = kind == DrawKind::kLogUniform || kind == DrawKind::kLogNormal;
      const bool ascends = kind == DrawKind::kLogNormal || kind == DrawKind::kExponential ||
                           draw.second >= draw.first;
      if (draw.first >= (needs_positive ? 1e-9 : 0) && draw.second >= 0 && ascends &&
          draw.first < 1e9 && draw.second < 1e9)
        return draw;
    }
  }
  json.refuse(key,
              "a number from 0, or one of {uniform: [least, most]}, {log_uniform: [least, most]}, "
              "{log_normal: [median, sigma]}, {exponential: [least, mean above it]}");
  return {};
}

}  // namespace

std::map<std::string, StudyModel> read_study_models(ArtifactObject& root, const std::string& where,
                                                    const std::string& folder) {
  std::map<std::string, StudyModel> models;
  const Json* given = root.find("models");
  if (given == nullptr || !given->is_object() || given->empty()) {
    root.refuse("models", "a map from names to models");
    return models;
  }
  ArtifactObject json = root.object("models", true);
  for (const auto& [name, value] : given->items()) {
    StudyModel& model = models[name];
    if (value.is_object() && value.contains("modules")) {
      model = read_modules(name, json.object(name, true));
    } else if (value.is_object()) {
      model.graph = parse_graph_of_model(value.dump(), str(where, " models.", path_part(name)));
    } else if (value.is_string() && exists(folder, value.get<std::string>())) {
      model.graph = read_path(value.get<std::string>(), folder);
    } else {
      json.refuse(name, value.is_string()
                            ? str("a model directory or module graph at ",
                                  seen_from(folder, value.get<std::string>()).string())
                            : "a path, the keys of a config.json, or `modules`");
    }
    model.graph.name = name;
  }
  return models;
}

StudyData read_study_data(ArtifactObject& setting) {
  StudyData data;
  const Json* value = setting.find("data");
  if (value == nullptr) return data;
  if (value->is_string()) {
    if (*value != "reference") setting.refuse("data", "reference, or an object with classes");
    return data;
  }
  ArtifactObject json = setting.object("data", true);
  data.max_tokens = json.whole("max_tokens", 0, {0, 1 << 24});
  for (ArtifactObject& item : json.items("classes")) {
    SampleClass& sample = data.classes.emplace_back();
    sample.weight = item.number("weight", 1.0, 1e-9, 1e12);
    sample.items = read_draw(item, "items", std::nullopt);
    sample.patches = read_draw(item, "patches", std::nullopt);
    sample.patches_per_token = item.number("patches_per_token", 1.0, 1e-3, 1e6);
    sample.clips = read_draw(item, "clips", Draw{});
    sample.frames = read_draw(item, "frames", Draw{});
    sample.frames_per_token = item.number("frames_per_token", 1.0, 1e-3, 1e6);
    sample.text = read_draw(item, "text", Draw{});
    item.refuse_unknown();
  }
  if (data.classes.empty()) json.refuse("classes", "a list of one class of samples at least");
  json.refuse_unknown();
  return data;
}

std::vector<std::string> read_names(ArtifactObject& json, const std::string& key,
                                    const std::string& expected) {
  std::vector<std::string> names;
  const Json* list = json.find(key);
  if (list == nullptr) return names;
  bool is_good = list->is_array();
  for (const Json& each : is_good ? *list : Json::array()) {
    is_good = is_good && each.is_string();
    if (is_good) names.push_back(each.get<std::string>());
  }
  if (!is_good) json.refuse(key, expected);
  return names;
}

std::optional<StudyRun> read_study_run(ArtifactObject& setting, const std::string& folder) {
  if (!setting.has("run")) return std::nullopt;
  ArtifactObject json = setting.object("run", true);
  StudyRun run;
  const std::string path = json.text("config", std::nullopt);
  run.config = seen_from(folder, path).lexically_normal().string();
  if (!path.empty() && !std::filesystem::is_regular_file(run.config))
    json.refuse("config", str("a run configuration at ", run.config));
  for (const std::string& value : read_names(json, "values", "a list of texts key.path=value")) {
    run.values.push_back(value);
    if (value.find('=') == std::string::npos) json.refuse("values", "texts key.path=value");
  }
  run.steps = json.whole("steps", run.steps, {2, 1 << 20});
  run.warm_up_steps = json.whole("warm_up_steps", run.warm_up_steps, {0, 1 << 20});
  if (run.warm_up_steps >= run.steps) json.refuse("warm_up_steps", "fewer than `steps`");
  json.refuse_unknown();
  return run;
}

}  // namespace tributary::config
