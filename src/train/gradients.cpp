#include "train/gradients.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/error.h"
#include "core/stopwatch.h"
#include "ops/attend_packed.h"

namespace tributary::train {
namespace {

std::int64_t count_targets(std::span<const data::EncodedSample> samples) {
  std::int64_t targets = 0;
  for (const data::EncodedSample& sample : samples) targets += sample.shape().target_tokens.count;
  return targets;
}

void clear_gradients(model::Model& model) {
  for (const auto& unit : model.units())
    if (unit->trainable()) unit->flat_gradient().zero_();
}

}  // namespace

void add_by_source(const at::Tensor& row_losses, std::span<const int> sources,
                   std::vector<SourceLoss>& by_source) {
  const at::Tensor rows = row_losses.to(at::kCPU, at::kFloat).contiguous();
  TRIB_CHECK(rows.numel() == static_cast<std::int64_t>(sources.size()),
             .what = "train: not one loss a target token", .found = str(rows.numel()),
             .expected = str(sources.size()));
  const float* losses = rows.const_data_ptr<float>();
  for (std::size_t i = 0; i < sources.size(); ++i)
    by_source[static_cast<std::size_t>(sources[i])] += {.sum = double{losses[i]}, .targets = 1};
}

BatchResult accumulate_gradients(model::Model& model, std::span<const data::EncodedSample> samples,
                                 const schedule::PackedBins& microbatches,
                                 const GradientOptions& options) {
  const std::int64_t targets = count_targets(samples);
  TRIB_REQUIRE(targets > 0, .what = "train: no sample of the batch has a target token",
               .where = samples.empty() ? "" : samples.front().key,
               .expected = "at least one assistant turn that is not empty");
  BatchResult result;
  result.by_source.resize(static_cast<std::size_t>(options.sources));
  clear_gradients(model);
  Stopwatch watch;
  for (std::int64_t bin = 0; bin < microbatches.bins(); ++bin) {
    std::vector<const data::EncodedSample*> packed;
    for (const std::int32_t member : microbatches.bin(bin))
      packed.push_back(&samples[static_cast<std::size_t>(member)]);
    const Microbatch microbatch = collate(packed, model.config(), options.mrope, options.device);
    result.attention_rows +=
        ops::SampleGroups(microbatch.batch.cu_seqlens, ops::Mask::kCausal, at::kCPU).rows();
    result.seconds.data += watch.lap();
    const model::LossSum loss =
        model::sum_loss(model, model.forward(microbatch.batch), microbatch.targets);
    add_by_source(loss.rows, microbatch.target_sources, result.by_source);
    result.seconds.forward += watch.lap();
    if (loss.sum.requires_grad())
      torch::autograd::backward({loss.sum / static_cast<double>(targets)}, {});
    result.seconds.backward += watch.lap();
  }
  SourceLoss all;
  for (const SourceLoss& source : result.by_source) all += source;
  result.loss = all.mean();
  return result;
}

}  // namespace tributary::train
