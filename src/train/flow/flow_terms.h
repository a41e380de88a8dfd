#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/run/run_config.h"
#include "data/loader/loader.h"
#include "memory/address/page_table.h"
#include "memory/transport/cuda/device_memory.h"
#include "model/model.h"
#include "train/flow/flow_module.h"

namespace tributary::train {

/// What a run says to its encoders, so that they make just the features that it would make itself.
struct FlowTerms {
  /// What features depend on, by name: keys of the configuration, files of the model, weights. Both
  /// sides must have the same.
  std::map<std::string, std::string> settings = {};
  int compute_threads = 1;        // on which bits depend; an encoder takes as many
  std::int64_t piece_bytes = 0;   // in which the weights of towers that train travel
  data::LoaderState loader = {};  // where the data of the run stood at its start
};

/// A digest of what a run and its encoders must have alike of a tower: its weights where it is
/// frozen, else the size of its gradient. Where it trains they come with each step.
[[nodiscard]] std::string digest_tower(const model::Model& model, const FlowModule& module);
/// A digest of the parameters of a module, which this process holds whole. cost: reads them once
[[nodiscard]] std::string digest_weights(const model::Model& model, const std::string& module);

/// The terms of a run, or of an encoder. `weights` are digests by module.
///
/// errors: Fault::kResource when a file of the model cannot be read
[[nodiscard]] FlowTerms flow_terms(const config::RunConfig& config, const data::Loader& loader,
                                   const std::map<std::string, std::string>& weights);

/// Writes the terms into the pool's directory.
void write_flow_terms(const std::string& directory, const FlowTerms& terms);
/// errors: Fault::kInput naming the file
[[nodiscard]] FlowTerms read_flow_terms(const std::string& directory);

/// Refuses to encode for a run with other settings.
///
/// errors: Fault::kInput naming what differs, as this process has it and as the run has it
void require_same_settings(const FlowTerms& own, const FlowTerms& of_run);

/// The pool's directory of a run.
[[nodiscard]] std::string pool_directory(const config::RunConfig& config);
/// The engines that it may use.
[[nodiscard]] std::vector<memory::Engine> pool_engines(const config::RunConfig& config);
/// The device of this process, where features may go from one to another; null otherwise.
///
/// errors: those of memory::require_device_memory()
[[nodiscard]] std::shared_ptr<memory::DeviceMemory> pool_device(const config::RunConfig& config,
                                                                at::Device device);

}  // namespace tributary::train
