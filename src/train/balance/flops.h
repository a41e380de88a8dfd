#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "config/family/module_work.h"
#include "config/recompute.h"
#include "core/sample_shape.h"

namespace tributary::train {

/// Forward work, module by module along the way of the features: the same modules for every sample
/// of a model.
using ForwardFlops = std::vector<config::ModuleWork>;

/// Counts the forward work of one sample. source: docs/theory/numerics.md, "FLOPs"
[[nodiscard]] ForwardFlops count_forward(const config::ModelConfig& config,
                                         const SampleShape& shape);
/// Adds the work of another sample; `sum` is empty before the first.
void add_work(ForwardFlops& sum, const ForwardFlops& sample);

/// Forward and backward work of a training step under the two attention conventions.
struct TrainFlops {
  double full = 0;      // 12 * tokens^2 * d * layers: the causal mask is not counted
  double causal = 0;    // 6 * tokens^2 * d * layers
  double hardware = 0;  // causal, and what the layers that are run again in backward add

  TrainFlops& operator+=(const TrainFlops& other);
};

/// What adapters add to the work of the modules that they lie in, whose own weights are frozen.
struct AdapterWork {
  bool trains_alone = false;                  // a run with adapters
  std::map<std::string, double> shares = {};  // of the layers' weights, by module
};

/// Counts what is trained: a frozen module costs only its input gradient, and not even that where
/// nothing trainable lies before it. Recompute is not useful work: it counts only in `hardware`, as
/// one more forward of the layers, or the MLPs, of a module that has a backward. Beside adapters
/// the weights of a module have no gradient.
///
/// shape: returns one for each module of `forward`
/// units: `frozen` and `recomputed` name modules
[[nodiscard]] std::vector<TrainFlops> count_training_of_modules(
    const ForwardFlops& forward, std::span<const std::string> frozen,
    std::span<const config::ModuleRecompute> recomputed, const AdapterWork& adapters = {});
/// Their sum.
[[nodiscard]] TrainFlops count_training(const ForwardFlops& forward,
                                        std::span<const std::string> frozen,
                                        std::span<const config::ModuleRecompute> recomputed,
                                        const AdapterWork& adapters = {});

/// Counts only a forward, as of a reference.
[[nodiscard]] TrainFlops count_inference(const ForwardFlops& forward, const AdapterWork& adapters);

/// The formulas of MFU and HFU in words, for environment.json.
[[nodiscard]] std::string describe_mfu();

}  // namespace tributary::train
