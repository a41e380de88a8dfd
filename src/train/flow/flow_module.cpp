#include "train/flow/flow_module.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <ATen/ATen.h>

#include "core/error.h"
#include "core/file/crc32c.h"
#include "core/place_items.h"
#include "ops/to_device.h"

namespace tributary::train {
namespace {

/// The media of a sample that a module takes, in the order of its object.
std::vector<const data::PatchedItem*> media_of(const FlowModule& module,
                                               const data::EncodedSample& sample) {
  std::vector<const data::PatchedItem*> media;
  for (const Modality modality : module.takes)
    for (const data::PatchedItem& item : sample.items)
      if (item.modality == modality) media.push_back(&item);
  return media;
}

bool is_same(const data::PatchedItem& one, const data::PatchedItem& other) {
  return one.modality == other.modality && one.grid == other.grid && one.rows == other.rows;
}

/// Media as one input of the tower.
model::EncoderInput input_of(std::span<const data::PatchedItem* const> media, at::Device device) {
  model::EncoderInput input;
  std::vector<at::Tensor> rows;
  for (const data::PatchedItem* item : media) {
    const std::int64_t patches = item->grid.patches();
    input.grids.push_back(item->grid);
    rows.push_back(at::from_blob(const_cast<float*>(item->rows.data()),  // NOLINT: only read
                                 {patches, std::ssize(item->rows) / patches}, at::kFloat));
  }
  if (!rows.empty()) input.rows = ops::to_device(at::cat(rows), device);
  return input;
}

/// The features of the items that a rank of a group projects, as model::share_media deals them.
std::vector<at::Tensor> own_items(std::span<const Grid> grids, std::span<const at::Tensor> items,
                                  const mesh::Group& group) {
  const std::vector<std::int64_t> rank_of = share_items(grids, group.size());
  std::vector<at::Tensor> own;
  for (std::size_t item = 0; item < items.size(); ++item)
    if (rank_of[item] == group.index()) own.push_back(items[item]);
  return own;
}

}  // namespace

std::vector<FlowModule> flow_modules(const config::RunConfig& run,
                                     const config::ModelConfig& model) {
  const config::ParallelSection& parallel = run.parallel;
  const auto trains = [&](const std::string& name) {
    return !run.model.has_adapters() && std::ranges::count(run.model.freeze, name) == 0;
  };
  std::vector<FlowModule> modules;
  std::uint16_t part = 0;
  for (const config::FrontModule& front : config::front_modules(model)) {
    if (!front.is_encoder()) continue;
    const auto own =
        std::ranges::find(parallel.modules, front.name, &config::ModuleSection::module);
    if (own != parallel.modules.end() && own->placement == config::Placement::kFlow)
      modules.push_back(
          {.name = front.name, .part = part, .takes = front.takes, .trains = trains(front.name)});
    ++part;
  }
  std::ranges::sort(modules, {}, &FlowModule::name);
  return modules;
}

std::uint32_t record_mark(const data::EncodedSample& sample) {
  return crc32c(std::as_bytes(std::span(sample.key)));
}

bool lacks_rows(const FlowModule& module, const data::EncodedSample& sample) {
  return std::ranges::any_of(media_of(module, sample),
                             [](const data::PatchedItem* item) { return item->rows.empty(); });
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
  if (module.trains) return run_tower(model, module, sample, device);  // the bits of its graph
  std::vector<const data::PatchedItem*> different;
  std::vector<std::size_t> place;  // of each item among them
  for (const data::PatchedItem* item : media_of(module, sample)) {
    const auto same = std::ranges::find_if(
        different, [item](const data::PatchedItem* each) { return is_same(*each, *item); });
    place.push_back(static_cast<std::size_t>(same - different.begin()));
    if (same == different.end()) different.push_back(item);
  }
  const at::Tensor encoded =
      model.run_encoder_stage(module.name, /*stage=*/0, input_of(different, device), /*input=*/{})
          .contiguous();
  if (different.size() == place.size()) return encoded;
  std::vector<std::int64_t> rows;
  for (const data::PatchedItem* item : different)
    rows.push_back(model.feature_rows(module.name, item->grid));
  const std::vector<at::Tensor> parts = encoded.split_with_sizes(rows);
  std::vector<at::Tensor> all;
  for (const std::size_t each : place) all.push_back(parts[each]);
  return at::cat(all);
}

at::Tensor run_tower(model::Model& model, const FlowModule& module,
                     const data::EncodedSample& sample, at::Device device) {
  return model
      .run_encoder_stage(module.name, /*stage=*/0, input_of(media_of(module, sample), device),
                         /*input=*/{})
      .contiguous();
}

at::Tensor join_features(const model::Model& model, const FlowModule& module,
                         std::span<const data::EncodedSample* const> samples,
                         std::span<const at::Tensor> of_samples) {
  std::vector<Grid> grids;
  std::vector<at::Tensor> items;
  std::vector<SampleShape> shapes;
  for (const data::EncodedSample* sample : samples) shapes.push_back(sample->shape());
  std::vector<std::int64_t> next(samples.size(), 0);  // row of each object
  for (const Modality modality : module.takes)
    for (std::size_t i = 0; i < samples.size(); ++i)
      for (const Grid& grid : shapes[i].grids(modality)) {
        const std::int64_t rows = model.feature_rows(module.name, grid);
        items.push_back(of_samples[i].narrow(0, std::exchange(next[i], next[i] + rows), rows));
        grids.push_back(grid);
      }
  if (model.layout().splits_sequence())
    items = own_items(grids, items, model.layout().mesh->sequence());
  if (items.empty()) return {};
  return items.size() == 1 ? items.front() : at::cat(items);
}

}  // namespace tributary::train
