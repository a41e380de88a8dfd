#pragma once

#include <memory>
#include <string>

#include <c10/core/Device.h>

#include "config/run/run_config.h"
#include "model/model.h"

namespace tributary::app {

/// The model that answers: a Hugging Face directory, or a checkpoint with the settings of its run.
struct Answerer {
  std::string directory;   // has config.json, tokenizer.json, preprocessor_config.json
  std::string checkpoint;  // empty: the weights are in `directory`
  config::RunConfig run;   // of a directory: the defaults, and its own limits of pictures
  bool is_bf16 = false;    // trained, or stored, as bf16
};

/// Finds what a user named: a directory of Hugging Face, a run (its newest checkpoint) or a
/// checkpoint.
///
/// errors: Fault::kInput when it is none of them, or damaged
[[nodiscard]] Answerer find_answerer(const std::string& path);

/// The type that the answerer computes in on a device: a CPU computes in f32.
[[nodiscard]] config::Dtype dtype_on(const Answerer& answerer, const std::string& device);

/// Fills a model whose parameters lie on their device already, and says which types were converted.
///
/// errors: Fault::kInput with ExitCode::kCheckpointRefused when the weights do not fit
void load_weights(const Answerer& answerer, model::Model& model);

}  // namespace tributary::app
