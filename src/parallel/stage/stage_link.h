#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

#include "mesh/mesh.h"
#include "parallel/layout.h"

namespace tributary::parallel {

/// What passes between the virtual stages of a model: one tensor for each microbatch. What later
/// layers need beside the hidden states, as the levels of features that Qwen3-VL adds to its first
/// layers, lies in further columns of it, so one message carries all of a row.
enum class Passed { kActivation, kGradient };

/// A message between two virtual stages that lie on different ranks.
struct StageMessage {
  Passed what = Passed::kActivation;
  int from = 0;  // virtual stage
  int to = 0;
  int microbatch = 0;
};

/// shape: contiguous; of the receiver as the sender's, which both know from the microbatch
/// errors: those of mesh::Group::send
[[nodiscard]] mesh::Pending send(const Layout& layout, const StageMessage& message,
                                 const at::Tensor& values);
[[nodiscard]] mesh::Pending receive(const Layout& layout, const StageMessage& message,
                                    const at::Tensor& values);

/// Runs the virtual stages of a module, one after the other. Each rank runs those that it holds, on
/// what the stage before has passed on; a rank outside of the mesh runs none.
///
/// `run` gets the virtual stage and its input, undefined for the first one; `empty_input` makes
/// memory for the input of a later one.
///
/// shape:      returns what the last stage returns, on the ranks that hold it, else undefined
/// collective: messages between neighbours; all ranks of a replica
using RunStage = std::function<at::Tensor(int virtual_stage, const at::Tensor& input)>;
[[nodiscard]] at::Tensor run_stages(const Layout& layout,
                                    const std::function<at::Tensor(int stage)>& empty_input,
                                    const RunStage& run);

}  // namespace tributary::parallel
