#pragma once

#include <map>
#include <span>
#include <string>

#include "config/run/run_config.h"
#include "data/loader/loader.h"
#include "model/model.h"
#include "train/flow/flow_module.h"

namespace tributary::train {

/// What a run and its encoders must have in common, so that features are those that the run would
/// compute itself: seed, data, image settings, weights, type and compute threads. By name.
inline constexpr const char* kComputeThreads = "compute threads";
using FlowIdentity = std::map<std::string, std::string>;

/// A digest of the parameters of a module, which this process holds whole. cost: reads them once
[[nodiscard]] std::string digest_weights(const model::Model& model, const std::string& module);

/// errors: Fault::kResource when a file of the model cannot be read
[[nodiscard]] FlowIdentity flow_identity(const config::RunConfig& config,
                                         const data::Loader& loader,
                                         const std::map<std::string, std::string>& weights);

/// The file in the pool's directory by which encoders know the run.
void write_flow_identity(const std::string& directory, const FlowIdentity& identity);
/// errors: Fault::kInput naming the file
[[nodiscard]] FlowIdentity read_flow_identity(const std::string& directory);

/// Refuses to encode for another run.
///
/// errors: Fault::kInput naming what differs, as the run has it and as this process has it
void require_same_identity(const FlowIdentity& of_run, const FlowIdentity& own);

/// The pool's directory of a run.
[[nodiscard]] std::string pool_directory(const config::RunConfig& config);

}  // namespace tributary::train
