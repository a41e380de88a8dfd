#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/sample.h"
#include "model/model.h"
#include "schedule/packed_bins.h"
#include "train/collate.h"
#include "train/metrics/step_metrics.h"

namespace tributary::train {

/// What one pass over a global batch gave; the gradients lie in the units' flat buffers.
struct BatchResult {
  double loss = 0;  // mean over the target tokens of the batch
  std::vector<SourceLoss> by_source;
  PhaseSeconds seconds;             // data (collating), forward, backward
  std::int64_t attention_rows = 0;  // of the backbone's attention, padding included
};

struct GradientOptions {
  config::MropeMode mrope = config::MropeMode::kOfficial;
  at::Device device = at::kCPU;
  int sources = 1;  // number of data.sources
};

/// Sets the gradients to those of the mean loss over all target tokens of the global batch,
/// whatever microbatches it is cut into.
///
/// shape:  the bins of `microbatches` hold indices of `samples`
/// errors: Fault::kInput when no sample has a target token
[[nodiscard]] BatchResult accumulate_gradients(model::Model& model,
                                               std::span<const data::EncodedSample> samples,
                                               const schedule::PackedBins& microbatches,
                                               const GradientOptions& options);

/// Adds the loss of each target row to its source, in f64 and in row order.
///
/// shape: row_losses [target tokens] f32, sources [target tokens]
void add_by_source(const at::Tensor& row_losses, std::span<const int> sources,
                   std::vector<SourceLoss>& by_source);

}  // namespace tributary::train
