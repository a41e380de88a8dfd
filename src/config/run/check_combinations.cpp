#include <algorithm>
#include <charconv>
#include <set>

#include "config/family/known_modules.h"
#include "config/reading/ranges.h"
#include "config/run/key_checker.h"
#include "config/run/mesh_shape.h"
#include "config/run/run_field.h"

namespace tributary::config {
namespace {

bool is_name(const std::string& text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !text.empty() && text.size() <= 100 && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), is_plain);
}

bool is_device(const std::string& device) {
  if (device == "cpu" || device == "cuda") return true;
  int index = -1;
  constexpr std::size_t kPrefix = 5;
  if (!device.starts_with("cuda:") || device.size() > kPrefix + 3) return false;
  const char* end = device.data() + device.size();
  return std::from_chars(device.data() + kPrefix, end, index).ptr == end && index >= 0;
}

void check_run(const RunConfig& config, KeyChecker& check) {
  constexpr const char* kNameRule = "at most 100 letters, digits, `_`, `-`, `.`; no dot first";
  check.require(is_name(config.run.name), "run.name",
                {.what = "config: name of the run cannot name a directory",
                 .found = escaped(config.run.name),
                 .expected = kNameRule});
  check.require(is_device(config.run.device), "run.device",
                {.what = "config: device is not known",
                 .found = escaped(config.run.device),
                 .expected = "cpu, cuda or cuda:<n>"});
  std::set<std::string> names;
  for (std::size_t i = 0; i < config.run.stages.size(); ++i) {
    const std::string& name = config.run.stages[i].name;
    check.require(name.empty() || (is_name(name) && names.insert(name).second),
                  str("run.stages.", i, ".name"),
                  {.what = "config: name of the stage cannot name its directory",
                   .found = escaped(name),
                   .expected = str("another name for each stage, of ", kNameRule)});
  }
  const std::string& run_dir = config.run.dir;
  check.require(run_dir.empty() || run_dir != config.model.path, "run.dir",
                {.what = "config: run writes into the model it reads",
                 .found = escaped(run_dir),
                 .expected = "a directory other than model.path"});
}

void check_unique(const std::vector<std::string>& names, const std::string& kind,
                  const std::string& key, KeyChecker& check) {
  std::set<std::string> seen;
  for (const std::string& name : names)
    check.require(seen.insert(name).second, key,
                  {.what = str("config: ", kind, " is listed twice"),
                   .found = name,
                   .expected = str("each ", kind, " once")});
}

/// Whether a module has a list of layers; a projector has not.
bool has_blocks(const std::string& module) {
  const KnownModule* known = find_known_module(module);
  return known != nullptr && known->role != ModuleRole::kProjector;
}

void check_model(const RunConfig& config, KeyChecker& check) {
  const ModelSection& model = config.model;
  check.require(!(model.dtype == Dtype::kBfloat16 && config.run.device == "cpu"), "model.dtype",
                {.what = "config: dtype is not supported on the device",
                 .found = "bfloat16 on cpu",
                 .expected = "float32 on cpu: bfloat16 arithmetic is emulated there and slower",
                 .fix = "set model.dtype to float32, or run.device to cuda"});
  const bool from_checkpoint = model.weights == Weights::kCheckpoint;
  check.require(from_checkpoint == !model.checkpoint.empty(), "model.checkpoint",
                {.what = "config: weights and checkpoint do not go together",
                 .found = from_checkpoint ? "model.weights checkpoint, and no model.checkpoint"
                                          : "model.checkpoint, and other model.weights",
                 .expected = "both or none"});
  check_unique(model.freeze, "module", "model.freeze", check);
  std::vector<std::string> words;
  for (const ModuleRecompute& each : model.recompute) words.push_back(word_of(each));
  check_unique(words, "module", "model.recompute", check);
  check_unique(model.offload, "module", "model.offload", check);
  for (const ModuleRecompute& each : model.recompute) {
    const bool twice = recompute_of(model.recompute, each.module) != each ||
                       std::ranges::count(model.offload, each.module) > 0;
    check.require(!twice, "model.recompute",
                  {.what = "config: module is recomputed in two ways",
                   .found = word_of(each),
                   .expected = "a module, its .mlp, or model.offload, but one of them"});
    check.require(each.every == 1 || has_blocks(each.module), "model.recompute",
                  {.what = "config: module has no layers of which every nth could run again",
                   .found = word_of(each),
                   .expected = str(each.module, ", or a module with layers")});
  }
  const std::vector<std::string> modules = known_module_names();
  std::string all;
  for (const std::string& each : modules)
    all += (all.empty() ? "" : each == modules.back() ? " and " : ", ") + each;
  check.require(std::set(model.freeze.begin(), model.freeze.end()).size() < modules.size(),
                "model.freeze",
                {.what = "config: nothing is left to train",
                 .found = all + " frozen",
                 .expected = "at least one module that trains"});
}

void check_adapter(const RunConfig& config, KeyChecker& check) {
  const AdapterSection& adapter = config.model.adapter;
  const bool is_used = adapter.kind != AdapterKind::kNone || !adapter.path.empty();
  check.require(is_used || adapter == AdapterSection(), "adapter.kind",
                {.what = "config: keys of the adapter have no effect",
                 .found = "kind none, and other keys of the section",
                 .expected = "lora or dora, or no such section"});
  check.require(!adapter.targets.empty(), "adapter.targets",
                {.what = "config: adapter has no target",
                 .found = "[]",
                 .expected = "all-linear, or names of linear maps"});
}

void check_sources(const RunConfig& config, KeyChecker& check) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < config.data.sources.size(); ++i) {
    const SourceSection& source = config.data.sources[i];
    const std::string key = str("data.sources.", i, ".");
    if (source.name.empty()) continue;  // reported as missing
    check.require(is_name(source.name), key + "name",
                  {.what = "config: name of the source cannot be used in metrics",
                   .found = escaped(source.name),
                   .expected = "at most 100 letters, digits, `_`, `-`, `.`; no dot first"});
    check.require(source.name != "overall", key + "name",
                  {.what = "config: name of the source is reserved",
                   .found = source.name,
                   .expected = "another name: `overall` is the sum of all sources"});
    check.require(names.insert(source.name).second, key + "name",
                  {.what = "config: two sources have one name",
                   .found = source.name,
                   .expected = "a name of its own for every source"});
    check.require(source.path.empty() || source.path != source.held_out, key + "held_out",
                  {.what = "config: source is held out from itself",
                   .found = escaped(source.held_out),
                   .expected = "a file with other samples than data.sources[].path"});
  }
}

void check_arrival(const RunConfig& config, KeyChecker& check) {
  const bool arrives = config.pool.order == PoolOrder::kArrival;
  check.require(arrives || config.pool.replay.empty(), "pool.replay",
                {.what = "config: pool.replay has no effect on the order of the data",
                 .found = "pool.order data",
                 .expected = "pool.order arrival, as the logged run had it"});
  if (!arrives) return;
  check.require(config.parallel.has_encoders_beside(), "pool.order",
                {.what = "config: nothing arrives without encoders beside the run",
                 .found = "pool.order arrival",
                 .expected = "pool.order data, or a module with placement flow"});
  check.require(config.batch.packing == Packing::kOnlineBestFit, "batch.packing",
                {.what = "config: an order by arrival is packed as it comes",
                 .found = str("packing ",
                              names_of<Packing>()[static_cast<std::size_t>(config.batch.packing)]),
                 .expected = "packing online_best_fit",
                 .fix = "set batch.packing to online_best_fit, or pool.order to data"});
  const bool any_apart = std::ranges::any_of(config.parallel.modules, [](const auto& module) {
    return module.placement == Placement::kSeparate || module.placement == Placement::kColocated;
  });
  check.require(!any_apart, "pool.order",
                {.what = "config: an order by arrival is not known to encoders among the ranks",
                 .found = "pool.order arrival, and a module with placement separate or colocated",
                 .expected = "other encoders with placement inline or flow"});
}

void check_data(const RunConfig& config, KeyChecker& check) {
  const DataSection& data = config.data;
  check_sources(config, check);
  check.require(data.min_pixels <= data.max_pixels, "data.min_pixels",
                {.what = "config: data.min_pixels is above data.max_pixels",
                 .found = str("min_pixels ", data.min_pixels, ", max_pixels ", data.max_pixels),
                 .expected = "min_pixels <= max_pixels"});
  check.require(data.max_tokens <= config.batch.capacity_tokens.count, "batch.capacity_tokens",
                {.what = "config: batch.capacity_tokens is below data.max_tokens",
                 .found = str("capacity_tokens ", config.batch.capacity_tokens.count,
                              ", data.max_tokens ", data.max_tokens),
                 .expected = "capacity_tokens >= data.max_tokens"});
  const BatchSection& batch = config.batch;
  check.require(!batch.correct_costs || batch.balance != Balance::kNone, "batch.correct_costs",
                {.what = "config: batch.correct_costs has no effect without batch.balance",
                 .found = "correct_costs true, balance none",
                 .expected = "batch.balance lpt or lpt_2d, or correct_costs false"});
  check.require(!batch.correct_costs || !config.parallel.has_encoders_beside(),
                "batch.correct_costs",
                {.what = "config: batch.correct_costs measures passes that wait for encoders",
                 .found = "correct_costs true, and a module with placement flow",
                 .expected = "correct_costs false, or another placement"});
  check_arrival(config, check);
  check.require(!batch.correct_costs || config.run.device == "cpu", "batch.correct_costs",
                {.what = "config: batch.correct_costs needs times that the device does not give",
                 .found = str("correct_costs true on ", config.run.device),
                 .expected = "run.device cpu: on others the time of a pass includes its waiting",
                 .fix = "set batch.correct_costs to false"});
  const bool is_level = batch.packing == Packing::kLevel;
  check.require(!is_level || batch.balance != Balance::kNone, "batch.packing",
                {.what = "config: packing level needs batch.balance",
                 .found = "packing level, balance none",
                 .expected = "batch.balance lpt or lpt_2d, or another packing"});
  check.require(is_level == (batch.microbatches > 0), "batch.microbatches",
                {.what = is_level ? "config: number of level microbatches is missing"
                                  : "config: number of microbatches has no effect",
                 .found = str(batch.microbatches),
                 .expected = is_level ? "at least 1 with packing level" : "0, or packing level"});
  const bool holds_out =
      data.held_out_fraction > 0 ||
      std::any_of(data.sources.begin(), data.sources.end(),
                  [](const SourceSection& source) { return !source.held_out.empty(); });
  const ErrorParts nothing_held_out{
      .what = "config: validation has no held-out samples",
      .found = "no held-out samples",
      .expected = "data.held_out_fraction above 0, or data.sources[].held_out"};
  check.require(holds_out || config.validation.every == 0, "validation.every", nothing_held_out);
  check.require(holds_out || !config.validation.blind, "validation.blind", nothing_held_out);
  check.require(holds_out || config.validation.metrics.empty(), "validation.metrics",
                nothing_held_out);
  check_unique(config.validation.metrics, "metric", "validation.metrics", check);
}

void check_schedule(const RunConfig& config, KeyChecker& check) {
  const ScheduleSection& schedule = config.schedule;
  const bool stable = schedule.decay == Decay::kWarmupStableDecay;
  check.require(stable || schedule.decay_steps == 0, "schedule.decay_steps",
                {.what = "config: decay steps have no effect",
                 .found = str("decay_steps ", schedule.decay_steps),
                 .expected = "0, or schedule.decay: warmup_stable_decay"});
  check.require(!stable || schedule.decay_steps > 0, "schedule.decay_steps",
                {.what = "config: decay steps are missing",
                 .found = "decay_steps 0",
                 .expected = "at least 1 with schedule.decay: warmup_stable_decay"});
  check.require(schedule.decay != Decay::kConstant || schedule.final_ratio == 0.0 ||
                    schedule.final_ratio == 1.0,
                "schedule.final_ratio",
                {.what = "config: final ratio has no effect",
                 .found = str("final_ratio ", schedule.final_ratio, " with decay constant"),
                 .expected = "a decay that falls"});
}

void check_optimizer(const RunConfig& config, KeyChecker& check) {
  const OptimizerSection& optimizer = config.optimizer;
  check.require(
      optimizer.kind == OptimizerKind::kMuon || optimizer.momentum == OptimizerSection().momentum,
      "optimizer.momentum",
      {.what = "config: momentum has no effect",
       .found = str("momentum ", optimizer.momentum),
       .expected = "optimizer.kind: muon"});
  const bool has_matrices = config.model.adapter == AdapterSection();
  check.require(optimizer.kind != OptimizerKind::kMuon || has_matrices, "optimizer.kind",
                {.what = "config: Muon has no matrices beside adapters",
                 .found = "muon, and a section adapter",
                 .expected = "adamw or adamw_8bit"});
  const ValidationSection& validation = config.validation;
  check.require(validation.stop_after == 0 || validation.every > 0, "validation.stop_after",
                {.what = "config: stop_after needs validations on the way",
                 .found = str("stop_after ", validation.stop_after, ", every 0"),
                 .expected = "validation.every above 0"});
  check.require(validation.stop_after > 0 || validation.min_gain == 0, "validation.min_gain",
                {.what = "config: min_gain has no effect",
                 .found = str("min_gain ", validation.min_gain, ", stop_after 0"),
                 .expected = "validation.stop_after above 0"});
}

void check_groups(const RunConfig& config, KeyChecker& check) {
  std::set<std::string> matches;
  for (std::size_t i = 0; i < config.optimizer.groups.size(); ++i) {
    const ParameterGroupSection& group = config.optimizer.groups[i];
    const std::string key = str("optimizer.groups.", i, ".");
    check.require(group.match.empty() || matches.insert(group.match).second, key + "match",
                  {.what = "config: group can never match",
                   .found = escaped(group.match),
                   .expected = "each pattern once: the first group that matches counts"});
    check.require(group.weight_decay == -1.0 || group.weight_decay >= 0.0, key + "weight_decay",
                  {.what = "config: value cannot be used",
                   .found = str(group.weight_decay),
                   .expected = "-1 (keeps optimizer.weight_decay) or a number from 0"});
  }
}

void check_parallel(const RunConfig& config, KeyChecker& check) {
  const ParallelSection& parallel = config.parallel;
  std::string automatic;
  std::string last = "parallel.dp_shard";
  int count = 0;
  for (const auto& [key, degree] : degrees_of(parallel)) {
    if (!degree.is_auto()) continue;
    automatic += (automatic.empty() ? "" : ", ") + key;
    last = key;
    ++count;
  }
  check.require(count <= 1, last,
                {.what = "config: more than one axis of the mesh is auto",
                 .found = automatic,
                 .expected = "auto for at most one of them",
                 .fix = "give the others a number"});
  check.require(parallel.lost_after_seconds >= 2 * parallel.heartbeat_seconds,
                "parallel.lost_after_seconds",
                {.what = "config: lost_after_seconds is below two heartbeats",
                 .found = str("lost_after_seconds ", parallel.lost_after_seconds,
                              ", heartbeat_seconds ", parallel.heartbeat_seconds),
                 .expected = "lost_after_seconds >= 2 * heartbeat_seconds"});
}

void check_pool(const RunConfig& config, KeyChecker& check) {
  check.require(!config.pool.engines.empty(), "pool.engines",
                {.what = "config: nothing may move features",
                 .found = "an empty list",
                 .expected = "one of cuda, memfd, ucx, tcp, or several"});
  check_unique(config.pool.engines, "engine", "pool.engines", check);
  const PoolSection& pool = config.pool;
  const bool fits = pool.max_encoders == 0
                        ? pool.min_encoders == 0
                        : pool.min_encoders <= pool.encoders && pool.encoders <= pool.max_encoders;
  check.require(fits, "pool.max_encoders",
                {.what = "config: numbers of encoders do not fit together",
                 .found = str("min ", pool.min_encoders, ", at the start ", pool.encoders, ", max ",
                              pool.max_encoders),
                 .expected = "min_encoders <= encoders <= max_encoders, or no range: both 0",
                 .fix = "leave them to tributary launch --encoders MIN-MAX"});
  check.require(!pool.joins_devices() || config.run.device.starts_with("cuda"), "pool.engines",
                {.what = "config: features cannot go from device to device",
                 .found = str("run.device ", config.run.device),
                 .expected = "run.device cuda",
                 .fix = "take cuda out of pool.engines"});
}

void check_drill(const RunConfig& config, KeyChecker& check) {
  const DrillSection& drill = config.drill;
  if (drill.fault == DrillFault::kNone) return;
  const bool knows_steps = config.run.epochs == 0;
  check.require(!knows_steps || drill.step <= config.run.steps, "drill.step",
                {.what = "config: fault drill comes after the end of the run",
                 .found = str("step ", drill.step, ", run.steps ", config.run.steps),
                 .expected = "drill.step <= run.steps"});
  const auto due = [&](std::int64_t every) { return every > 0 && drill.step % every == 0; };
  const bool is_saved = !knows_steps || drill.step == config.run.steps ||
                        due(config.checkpoint.every) ||
                        (config.checkpoint.keep_best && due(config.validation.every));
  check.require(drill.section != DrillPlace::kCheckpoint || is_saved, "drill.step",
                {.what = "config: drill.step has no checkpoint to strike at",
                 .found = str("step ", drill.step, ", checkpoint.every ", config.checkpoint.every),
                 .expected = "a step with a checkpoint"});
}

}  // namespace

void check_combinations(const RunConfig& config, const KeyPlaces& places, Problems& problems) {
  KeyChecker check(places, problems);
  check_run(config, check);
  check_model(config, check);
  check_adapter(config, check);
  check_objective(config, check);
  check_data(config, check);
  check_schedule(config, check);
  check_optimizer(config, check);
  check_groups(config, check);
  check_parallel(config, check);
  check_modules(config, check);
  check_pool(config, check);
  check_drill(config, check);
}

}  // namespace tributary::config
