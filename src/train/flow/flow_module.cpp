#include "train/flow/flow_module.h"

#include <algorithm>
#include <numeric>

#include <ATen/ATen.h>

#include "core/error.h"
#include "core/file/crc32c.h"
#include "ops/to_device.h"

namespace tributary::train {
namespace {

/// The media of a sample as one input of the tower.
model::EncoderInput input_of(const FlowModule& module, const data::EncodedSample& sample,
                             at::Device device) {
  model::EncoderInput input;
  std::vector<at::Tensor> rows;
  for (const Modality modality : module.takes)
    for (const data::PatchedItem& item : sample.items) {
      if (item.modality != modality) continue;
      const std::int64_t patches = item.grid.patches();
      input.grids.push_back(item.grid);
      rows.push_back(at::from_blob(const_cast<float*>(item.rows.data()),  // NOLINT: only read
                                   {patches, std::ssize(item.rows) / patches}, at::kFloat));
    }
  if (!rows.empty()) input.rows = ops::to_device(at::cat(rows), device);
  return input;
}

}  // namespace

std::vector<FlowModule> flow_modules(const config::ParallelSection& parallel,
                                     const config::ModelConfig& model) {
  std::vector<FlowModule> modules;
  std::uint16_t part = 0;
  for (const config::FrontModule& front : config::front_modules(model)) {
    if (!front.is_encoder()) continue;
    const auto own =
        std::ranges::find(parallel.modules, front.name, &config::ModuleSection::module);
    if (own != parallel.modules.end() && own->placement == config::Placement::kFlow)
      modules.push_back({.name = front.name, .part = part, .takes = front.takes});
    ++part;
  }
  std::ranges::sort(modules, {}, &FlowModule::name);
  return modules;
}

std::uint32_t record_mark(const data::EncodedSample& sample) {
  return crc32c(std::as_bytes(std::span(sample.key)));
}

memory::ElementType element_type(at::ScalarType type) {
  TRIB_CHECK(type == at::kFloat || type == at::kBFloat16,
             .what = "train: features of this type are not in the pool",
             .found = at::toString(type));
  return type == at::kFloat ? memory::ElementType::kF32 : memory::ElementType::kBf16;
}

memory::Key key_of(const FlowModule& module, std::int64_t sample) {
  return {.sample = static_cast<std::uint64_t>(sample), .part = module.part};
}

std::vector<std::int64_t> feature_rows(const model::Model& model, const FlowModule& module,
                                       const SampleShape& shape) {
  std::vector<std::int64_t> rows;
  for (const Modality modality : module.takes) {
    rows.push_back(0);
    for (const Grid& grid : shape.grids(modality))
      rows.back() += model.feature_rows(module.name, grid);
  }
  return rows;
}

Bytes feature_bytes(const model::Model& model, const FlowModule& module, const SampleShape& shape) {
  const std::vector<std::int64_t> rows = feature_rows(model, module, shape);
  const auto element =
      static_cast<std::int64_t>(model.units().front()->whole_options().dtype().itemsize());
  return {std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) *
          model.feature_width(module.name) * element};
}

at::Tensor encode_features(model::Model& model, const FlowModule& module,
                           const data::EncodedSample& sample, at::Device device) {
  const at::NoGradGuard no_grad;
  return model
      .run_encoder_stage(module.name, /*stage=*/0, input_of(module, sample, device), /*input=*/{})
      .contiguous();
}

at::Tensor join_features(const model::Model& model, const FlowModule& module,
                         std::span<const data::EncodedSample* const> samples,
                         std::span<const at::Tensor> of_samples) {
  std::vector<std::vector<at::Tensor>> by_modality(module.takes.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!of_samples[i].defined()) continue;
    std::int64_t first = 0;
    const std::vector<std::int64_t> rows = feature_rows(model, module, samples[i]->shape());
    for (std::size_t modality = 0; modality < rows.size(); first += rows[modality++])
      if (rows[modality] > 0)
        by_modality[modality].push_back(of_samples[i].narrow(0, first, rows[modality]));
  }
  std::vector<at::Tensor> parts;
  for (const std::vector<at::Tensor>& own : by_modality)
    parts.insert(parts.end(), own.begin(), own.end());
  if (parts.empty()) return {};
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

}  // namespace tributary::train
