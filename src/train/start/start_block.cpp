#include "train/start/start_block.h"

#include <array>
#include <cstdio>
#include <ostream>
#include <utility>

#include "config/family/known_modules.h"
#include "config/run/adapter.h"
#include "config/run/mesh_shape.h"
#include "config/run/objective.h"
#include "config/run/read_run_config.h"
#include "core/machine/cores.h"
#include "core/text.h"
#include "data/preprocess/processor_file.h"
#include "train/flow/flow_terms.h"
#include "train/metrics/environment.h"

namespace tributary::train {
namespace {

void print_line(std::ostream& out, const std::string& topic, const std::string& text) {
  constexpr std::size_t kWidth = 11;
  out << topic << std::string(kWidth - topic.size(), ' ') << text << std::endl;
}

std::string describe_model(const MemoryNeed& need) {
  const std::int64_t all = need.count_parameters();
  const std::int64_t trained = need.count_trained();
  std::string text = str(describe_count(all), " parameters, ",
                         trained == all ? "all" : describe_count(trained), " trained: ");
  for (const ModuleSize& module : need.modules)
    text += str(&module == &need.modules.front() ? "" : ", ", module.name, " ",
                describe_count(module.parameters), module.trains() ? "" : " (frozen)");
  return text;
}

std::string describe_memory(const MemoryNeed& need, const MemoryPlace& place, int ranks) {
  std::string text = describe_sum(need);
  if (ranks > 1) text += " on this rank";
  if (need.activations.count > 0)
    text += str(", and about ", describe_bytes(need.activations),
                " of activations for a full microbatch");
  if (!place.name.empty())
    text += str("; there are ", describe_bytes(place.left), " (", place.name, ")");
  return text;
}

/// What ranks of the backbone's first stage keep besides where modules encode a step ahead.
std::string describe_ahead(const MemoryNeed& need, const config::ParallelSection& parallel) {
  std::string text;
  for (const config::ModuleSection& module : parallel.modules)
    if (module.ahead)
      text += str("; besides, features of ", module.module, " for one step more, ",
                  describe_bytes(need.features.at(module.module)), " a row");
  return text;
}

/// The degrees of each mesh: those of the backbone alone where all modules lie on it.
std::string describe_modules(const Ranks& ranks) {
  std::string text = config::describe(ranks.mesh().shape());
  for (const auto& [module, mesh] : ranks.meshes.encoders)
    text += str("; ", module, ": ",
                ranks.plan.find(module)->placement == config::Placement::kFlow
                    ? str("encoders beside the run, and a copy on ", mesh.size(), " ranks")
                    : config::describe(mesh.shape()));
  return text;
}

std::string describe_device(const config::RunConfig& config, const Ranks& ranks) {
  std::string text = config.run.device;
  const int size = ranks.launch.world;
  if (config.run.device == "cpu") {
    const int threads = compute_threads(config.run.threads, ranks.launch.local_world);
    text += str(", ", threads, threads == 1 ? " thread" : " threads", size > 1 ? " a rank" : "",
                ", ", describe_cpu());
  }
  if (size > 1) text += str("; ", size, " ranks: ", describe_modules(ranks));
  return text;
}

/// Who encodes for the run as a process beside its ranks.
std::string describe_encoders(const config::RunConfig& config) {
  std::string text = "beside the run, for";
  for (const config::ModuleSection& module : config.parallel.modules)
    if (module.placement == config::Placement::kFlow) text += " " + module.module;
  text += str(", through ", pool_directory(config), "; ");
  return text + (config.pool.encoders > 0
                     ? str(config.pool.encoders, " are waited for")
                     : "until some come (tributary encoder), the ranks encode");
}

}  // namespace

std::string describe_count(std::int64_t count) {
  std::string digits = str(count);
  const std::size_t first = count < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

void print_start(std::ostream& out, const config::RunConfig& config, const Ranks& ranks,
                 const MemoryNeed& need, const MemoryPlace& place) {
  print_line(out, "model", describe_model(need));
  if (config.model.has_adapters())
    print_line(out, "adapter", config::describe_adapter(config.model.adapter));
  if (config.objective.compares_pairs())
    print_line(out, "objective", config::describe_objective(config.objective));
  print_line(
      out, "memory",
      describe_memory(need, place, ranks.launch.world) + describe_ahead(need, config.parallel));
  print_line(out, "device", describe_device(config, ranks));
  if (config.parallel.has_encoders_beside()) print_line(out, "encoders", describe_encoders(config));
  print_line(out, "directory", config::run_directory(config));
}

data::DataSize size_data(const config::RunConfig& config, std::int64_t records,
                         std::int64_t held_out, const data::DataLook& look) {
  const std::int64_t samples = config.batch.global_samples;
  return {.records = records,
          .held_out = held_out,
          .estimated_dropped = look.dropped,
          .estimated_tokens = look.tokens,
          .steps_of_epoch = (records + samples - 1) / samples,
          .steps = config.run.steps};
}

void print_data(std::ostream& out, const config::RunConfig& config, const data::DataSize& size) {
  const double epochs = static_cast<double>(size.steps * config.batch.global_samples) /
                        static_cast<double>(size.records);
  std::array<char, 32> shown{};
  std::snprintf(shown.data(), shown.size(), epochs < 10 ? "%.1f" : "%.0f", epochs);
  print_line(out, "data",
             str(describe_count(size.records),
                 config.objective.compares_pairs() ? " training pairs, " : " training records, ",
                 describe_count(size.held_out), " held out, about ",
                 describe_count(size.estimated_dropped), " dropped; about ",
                 describe_count(size.estimated_tokens), " tokens and ",
                 describe_count(size.steps_of_epoch), " steps an epoch; ",
                 describe_count(size.steps), " steps are ", shown.data(), " epochs (about: by ",
                 data::kLookedAt, " records of each source)"));
}

std::vector<std::string> list_misfits(const config::ModelSection& section,
                                      const config::ModelConfig& model) {
  std::vector<std::string> misfits;
  const std::vector<config::FrontModule> front = config::front_modules(model);
  for (const std::string& module : section.freeze)
    if (module != config::kBackboneModule && config::find_module(front, module) == nullptr)
      misfits.push_back(str("model.freeze names ", module, ", which the model does not have"));
  std::string missing = data::describe_missing_processor(section.path, model);
  if (!missing.empty()) misfits.push_back(std::move(missing));
  return misfits;
}

std::string describe_shortage(const MemoryNeed& need, const MemoryPlace& place) {
  if (place.name.empty() || place.needed + need.activations <= place.left) return "";
  return str("train: memory may not suffice: ", describe_bytes(place.needed + need.activations),
             " with the activations of a full microbatch (an estimate), there are ",
             describe_bytes(place.left), " (", place.name,
             "); lower batch.capacity_tokens, or set model.recompute");
}

}  // namespace tributary::train
