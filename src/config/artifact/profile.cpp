#include "config/artifact/profile.h"

#include <nlohmann/json.hpp>
#include <tuple>

#include "config/reading/artifact_object.h"
#include "config/reading/yaml_json.h"
#include "core/sha256.h"

namespace tributary::config {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr WholeRange kAmount{0, std::int64_t{1} << 60};
constexpr WholeRange kTime{1, std::int64_t{1} << 60};
constexpr WholeRange kCount{1, 1 << 24};

const std::vector<std::string>& dtype_names() {
  static const std::vector<std::string> names{"float32", "bfloat16"};
  return names;
}

const std::vector<std::string>& op_names() {
  static const std::vector<std::string> names{"all_reduce", "all_gather", "reduce_scatter",
                                              "all_to_all", "broadcast",  "send"};
  return names;
}

ProfilePoint read_point(ArtifactObject json) {
  ProfilePoint point;
  point.tokens = {json.whole("tokens", std::nullopt, {1, 1 << 26})};
  point.forward = {json.whole("forward_ns", std::nullopt, kTime)};
  point.input_gradient = {json.whole("input_gradient_ns", 0, kAmount)};
  point.weight_gradient = {json.whole("weight_gradient_ns", 0, kAmount)};
  point.recompute = {json.whole("recompute_ns", point.forward.count, kAmount)};
  point.activation = {json.whole("activation_bytes", 0, kAmount)};
  point.activation_recomputed = {json.whole("activation_recomputed_bytes", 0, kAmount)};
  point.peak = {json.whole("peak_bytes", 0, kAmount)};
  point.spread = json.number("spread", 0.0, 0, 1e6);
  json.refuse_unknown();
  return point;
}

/// Reads the attention of a table; there may be none.
std::vector<MeasuredAttention> read_attention(ArtifactObject& json) {
  std::vector<MeasuredAttention> points;
  for (ArtifactObject& item : json.items("attention")) {
    MeasuredAttention point;
    point.attended = item.number("attended", std::nullopt, 1, 1 << 26);
    point.tokens = {item.whole("tokens", std::nullopt, {1, 1 << 26})};
    point.forward = {item.whole("forward_ns", std::nullopt, kTime)};
    point.gradient = {item.whole("gradient_ns", 0, kAmount)};
    point.spread = item.number("spread", 0.0, 0, 1e6);
    item.refuse_unknown();
    const auto key = [](const MeasuredAttention& of) { return std::tuple(of.attended, of.tokens); };
    if (!points.empty() && key(points.back()) >= key(point))
      json.refuse("attention", "points that ascend by attended, then tokens");
    points.push_back(point);
  }
  return points;
}

ProfileTable read_table(ArtifactObject json) {
  ProfileTable table;
  table.module = json.text("module", std::nullopt);
  table.layer = json.text("layer", std::nullopt);
  table.dtype = json.choice<Dtype>("dtype", Dtype::kBfloat16, dtype_names());
  table.tp = json.whole("tp", 1, {1, 1 << 16});
  table.ranks = json.whole("ranks", 0, {0, 1 << 24});
  table.threads = json.whole("threads", 0, {0, 1 << 16});
  table.share_percent = json.whole("share_percent", 100, {1, 100});
  table.sequence_tokens = json.whole("sequence_tokens", 0, {0, 1 << 26});
  table.parameters = {json.whole("parameter_bytes", 0, kAmount)};
  table.adapters = {json.whole("adapter_bytes", 0, kAmount)};
  for (ArtifactObject& point : json.items("points"))
    table.points.push_back(read_point(std::move(point)));
  if (table.points.empty()) json.refuse("points", "a list of one point at least");
  for (std::size_t i = 1; i < table.points.size(); ++i) {
    if (table.points[i - 1].tokens < table.points[i].tokens) continue;
    json.refuse("points", str("ascending tokens; point ", i, " has no more than the one before"));
    break;
  }
  table.attention = read_attention(json);
  json.refuse_unknown();
  return table;
}

CollectiveTable read_collective(ArtifactObject json) {
  CollectiveTable table;
  table.op = json.choice<CollectiveOp>("op", std::nullopt, op_names());
  for (ArtifactObject& item : json.items("points")) {
    MeasuredCollective point;
    point.ranks = item.whole("ranks", std::nullopt, {2, 1 << 24});
    point.bytes = {item.whole("bytes", std::nullopt, kAmount)};
    point.time = {item.whole("ns", std::nullopt, kTime)};
    point.spread = item.number("spread", 0.0, 0, 1e6);
    item.refuse_unknown();
    const bool ascends =
        table.points.empty() || std::tuple(table.points.back().ranks, table.points.back().bytes) <
                                    std::tuple(point.ranks, point.bytes);
    if (!ascends) json.refuse("points", "points that ascend by ranks, then bytes");
    table.points.push_back(point);
  }
  json.refuse_unknown();
  return table;
}

MeasuredPass read_pass(ArtifactObject json) {
  MeasuredPass pass;
  pass.ranks = json.whole("ranks", std::nullopt, kCount);
  pass.tp = json.whole("tp", 1, kCount);
  pass.threads = json.whole("threads", std::nullopt, kCount);
  pass.capacity = {json.whole("capacity_tokens", std::nullopt, {1, 1 << 26})};
  pass.forward = {json.whole("forward_ns", std::nullopt, kTime)};
  pass.backward = {json.whole("backward_ns", 0, kAmount)};
  pass.spread = json.number("spread", 0.0, 0, 1e6);
  json.refuse_unknown();
  return pass;
}

MeasuredStep read_step(ArtifactObject json) {
  MeasuredStep step;
  step.ranks = json.whole("ranks", std::nullopt, kCount);
  step.threads = json.whole("threads", std::nullopt, kCount);
  step.step = {json.whole("step_ns", std::nullopt, kAmount)};
  step.microbatch = {json.whole("microbatch_ns", 0, kAmount)};
  step.optimizer = {json.whole("optimizer_ns", 0, kAmount)};
  step.parameters = json.whole("parameters", 0, kAmount);
  step.process = {json.whole("process_bytes", 0, kAmount)};
  step.spread = json.number("spread", 0.0, 0, 1e6);
  json.refuse_unknown();
  return step;
}

OrderedJson write_table(const ProfileTable& table) {
  OrderedJson json{{"module", table.module},
                   {"layer", table.layer},
                   {"dtype", dtype_names()[static_cast<std::size_t>(table.dtype)]},
                   {"tp", table.tp},
                   {"ranks", table.ranks},
                   {"threads", table.threads},
                   {"share_percent", table.share_percent},
                   {"sequence_tokens", table.sequence_tokens},
                   {"parameter_bytes", table.parameters.count}};
  if (table.adapters.count > 0) json["adapter_bytes"] = table.adapters.count;
  json["points"] = OrderedJson::array();
  for (const ProfilePoint& point : table.points) {
    json["points"].push_back({{"tokens", point.tokens.count},
                              {"forward_ns", point.forward.count},
                              {"input_gradient_ns", point.input_gradient.count},
                              {"weight_gradient_ns", point.weight_gradient.count},
                              {"recompute_ns", point.recompute.count},
                              {"activation_bytes", point.activation.count},
                              {"activation_recomputed_bytes", point.activation_recomputed.count},
                              {"peak_bytes", point.peak.count},
                              {"spread", point.spread}});
  }
  for (const MeasuredAttention& point : table.attention) {
    json["attention"].push_back({{"attended", point.attended},
                                 {"tokens", point.tokens.count},
                                 {"forward_ns", point.forward.count},
                                 {"gradient_ns", point.gradient.count},
                                 {"spread", point.spread}});
  }
  return json;
}

OrderedJson write_collective(const CollectiveTable& table) {
  OrderedJson points = OrderedJson::array();
  for (const MeasuredCollective& point : table.points)
    points.push_back({{"ranks", point.ranks},
                      {"bytes", point.bytes.count},
                      {"ns", point.time.count},
                      {"spread", point.spread}});
  return {{"op", op_names()[static_cast<std::size_t>(table.op)]}, {"points", std::move(points)}};
}

OrderedJson write_pass(const MeasuredPass& pass) {
  return {{"ranks", pass.ranks},
          {"tp", pass.tp},
          {"threads", pass.threads},
          {"capacity_tokens", pass.capacity.count},
          {"forward_ns", pass.forward.count},
          {"backward_ns", pass.backward.count},
          {"spread", pass.spread}};
}

OrderedJson write_step(const MeasuredStep& step) {
  return {{"ranks", step.ranks},
          {"threads", step.threads},
          {"step_ns", step.step.count},
          {"microbatch_ns", step.microbatch.count},
          {"optimizer_ns", step.optimizer.count},
          {"parameters", step.parameters},
          {"process_bytes", step.process.count},
          {"spread", step.spread}};
}

}  // namespace

Profile parse_profile(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where);
  Problems problems;
  ArtifactObject root(json, where, "", problems);
  problems.raise_if_any(where);
  const std::string format = root.text("format", "");
  TRIB_REQUIRE(format == kProfileFormat, .what = "config: not a profile of this version",
               .where = root.where("format"), .found = escaped(format),
               .expected = std::string(kProfileFormat));
  Profile profile;
  profile.model = root.text("model", std::nullopt);
  profile.device = root.text("device", std::nullopt);
  profile.libraries = root.text("libraries", "");
  profile.adapter = root.text("adapter", "");
  profile.cores = root.whole("cores", 0, {0, 1 << 24});
  profile.memory = {root.whole("memory_bytes", 0, kAmount)};
  profile.flops_per_s = root.number("flops_per_s", 0.0, 0, 1e19);
  profile.launch = {root.whole("launch_ns", 0, kAmount)};
  profile.noise = root.number("noise", 0.0, 0, 1e6);
  profile.copy_bytes_per_s = root.number("copy_bytes_per_s", 0.0, 0, 1e19);
  for (ArtifactObject& table : root.items("layers"))
    profile.layers.push_back(read_table(std::move(table)));
  for (ArtifactObject& table : root.items("collectives"))
    profile.collectives.push_back(read_collective(std::move(table)));
  for (ArtifactObject& pass : root.items("passes"))
    profile.passes.push_back(read_pass(std::move(pass)));
  for (ArtifactObject& step : root.items("steps"))
    profile.steps.push_back(read_step(std::move(step)));
  root.refuse_unknown();
  problems.raise_if_any(where);
  return profile;
}

Profile read_profile(const std::string& path) {
  return parse_profile(read_artifact(path, "a profile, docs/formats/profile.md"), path);
}

std::string model_digest(std::string_view config_text) { return sha256(config_text).substr(0, 16); }

std::string write_profile(const Profile& profile) {
  OrderedJson json{{"format", kProfileFormat},
                   {"model", profile.model},
                   {"device", profile.device},
                   {"libraries", profile.libraries}};
  if (!profile.adapter.empty()) json["adapter"] = profile.adapter;
  json["cores"] = profile.cores;
  json["memory_bytes"] = profile.memory.count;
  json["flops_per_s"] = profile.flops_per_s;
  json["launch_ns"] = profile.launch.count;
  json["noise"] = profile.noise;
  json["copy_bytes_per_s"] = profile.copy_bytes_per_s;
  for (const char* list : {"layers", "collectives", "passes", "steps"})
    json[list] = OrderedJson::array();
  for (const ProfileTable& table : profile.layers) json["layers"].push_back(write_table(table));
  for (const CollectiveTable& table : profile.collectives)
    json["collectives"].push_back(write_collective(table));
  for (const MeasuredPass& pass : profile.passes) json["passes"].push_back(write_pass(pass));
  for (const MeasuredStep& step : profile.steps) json["steps"].push_back(write_step(step));
  return json.dump(1) + "\n";
}

}  // namespace tributary::config
