#include "train/flow/flow_terms.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "config/run/read_run_config.h"
#include "config/run/run_keys.h"
#include "core/error.h"
#include "core/file/crc32c.h"
#include "core/file/digest_file.h"
#include "core/file/file_system.h"
#include "core/file/given_file.h"
#include "core/json.h"
#include "core/sha256.h"
#include "memory/transport/choose_engine.h"
#include "train/flow/tower_objects.h"

namespace tributary::train {
namespace {

constexpr const char* kTermsFile = "/run.json";
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 26;

/// Keys outside of `data` that choose a sample or change its features.
constexpr std::array<std::string_view, 6> kKeys{
    "run.seed",    "run.deterministic",    "model.dtype",
    "model.mrope", "batch.global_samples", "objective.kind"};
/// Keys of `data` that do not.
constexpr std::array<std::string_view, 4> kOtherData{"data.workers", "data.prefetch_batches",
                                                     "data.bad_fraction", "data.bad_at_least"};
/// Files of the model by which samples are made.
constexpr std::array kFiles{"config.json",
                            "tokenizer.json",
                            "tokenizer_config.json",
                            "vocab.json",
                            "merges.txt",
                            "chat_template.jinja",
                            "processor_config.json",
                            "preprocessor_config.json",
                            "video_preprocessor_config.json"};

bool matters(const std::string& key) {
  if (key.starts_with("data.")) return std::ranges::count(kOtherData, key) == 0;
  return std::ranges::count(kKeys, key) > 0;
}

void add_keys(const config::RunConfig& config, std::map<std::string, std::string>& settings) {
  for (const config::Key& key : config::all_keys()) {
    if (!matters(key.path)) continue;
    const std::size_t place = key.path.find("[]");
    const std::size_t items = place == std::string::npos ? 1 : config.data.sources.size();
    for (std::size_t item = 0; item < items; ++item) {
      std::string path = key.path;
      if (place != std::string::npos) path.replace(place, 2, str(".", item));
      settings[path] = config::write_value(key.get(config, item));
    }
  }
}

}  // namespace

std::string digest_weights(const model::Model& model, const std::string& module) {
  std::vector<std::string> lines;
  for (const auto& unit : model.units()) {
    if (unit->module() != module) continue;
    for (const auto& parameter : unit->parameters()) {
      const at::Tensor values =
          unit->shard_value().narrow(0, parameter->offset, parameter->elements()).cpu();
      const auto* bytes = static_cast<const std::byte*>(values.const_data_ptr());
      lines.push_back(str(parameter->name, " ", crc32c({bytes, values.nbytes()}), "\n"));
    }
  }
  std::ranges::sort(lines);
  std::string text;
  for (const std::string& line : lines) text += line;
  return sha256(text);
}

std::string digest_tower(const model::Model& model, const FlowModule& module) {
  if (!module.trains) return digest_weights(model, module.name);
  return str("those of each step, with a gradient of ",
             FlatTower(model, module.name).gradient_bytes().count, " bytes");
}

FlowTerms flow_terms(const config::RunConfig& config, const data::Loader& loader,
                     const std::map<std::string, std::string>& weights) {
  FlowTerms terms{.compute_threads = at::get_num_threads(), .loader = loader.state()};
  add_keys(config, terms.settings);
  terms.settings["run.device"] = config.run.device.substr(0, config.run.device.find(':'));
  for (const char* file : kFiles)
    terms.settings[file] = digest_file(str(config.model.path, "/", file), kMaxFileBytes);
  for (const auto& [module, digest] : weights) terms.settings["weights of " + module] = digest;
  return terms;
}

void write_flow_terms(const std::string& directory, const FlowTerms& terms) {
  const Json json{{"format", "tributary flow 1"},
                  {"settings", terms.settings},
                  {"compute_threads", terms.compute_threads},
                  {"piece_bytes", terms.piece_bytes},
                  {"loader", data::to_json(terms.loader)}};
  replace_file(real_file_system(), directory + kTermsFile, json.dump(2) + "\n");
}

FlowTerms read_flow_terms(const std::string& directory) {
  const std::string path = directory + kTermsFile;
  const ErrorParts parts{.what = "train: terms of the run cannot be read",
                         .fix = "start the run again, and then the encoder"};
  const Json json = read_given_json(path, parts);
  try {
    return {.settings = json.at("settings").get<std::map<std::string, std::string>>(),
            .compute_threads = json.at("compute_threads").get<int>(),
            .piece_bytes = json.at("piece_bytes").get<std::int64_t>(),
            .loader = data::loader_state_from_json(json.at("loader"), path)};
  } catch (const Json::exception& error) {
    TRIB_RAISE(Fault::kInput, .what = parts.what, .where = path, .found = error.what(),
               .fix = parts.fix);
  }
}

void require_same_settings(const FlowTerms& own, const FlowTerms& of_run) {
  for (const auto& [name, value] : of_run.settings) {
    const auto found = own.settings.find(name);
    const std::string other = found == own.settings.end() ? "nothing" : found->second;
    TRIB_REQUIRE(other == value, .what = "train: encoder does not belong to the run", .where = name,
                 .found = escaped(other), .expected = escaped(value),
                 .fix = "start the encoder with the configuration and the files of the run");
  }
}

std::string pool_directory(const config::RunConfig& config) {
  return config.pool.directory.empty() ? config::run_directory(config) + "/pool"
                                       : config.pool.directory;
}

std::vector<memory::Engine> pool_engines(const config::RunConfig& config) {
  std::vector<memory::Engine> engines;
  for (const std::string& name : config.pool.engines)
    engines.push_back(memory::find_engine(name).value());
  return engines;
}

std::shared_ptr<memory::DeviceMemory> pool_device(const config::RunConfig& config,
                                                  at::Device device) {
  if (!config.pool.joins_devices()) return nullptr;
  return memory::require_device_memory(device.index());
}

}  // namespace tributary::train
