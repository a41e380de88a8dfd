#include "train/flow/tower_objects.h"

#include <cstring>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/error.h"

namespace tributary::train {
namespace {

constexpr std::uint16_t kKindShift = 8;  // in Key::part, above the place of the module

/// A sample of a group as it travels; all of them, then the gradients of their features.
struct WireSample {
  std::int64_t sample = 0, rows = 0, mark = 0;
};

std::span<const std::byte> bytes_of(const at::Tensor& row) {
  return {static_cast<const std::byte*>(row.const_data_ptr()), row.nbytes()};
}

}  // namespace

memory::Key key_of(const FlowModule& module, TowerObject what, std::int64_t sample,
                   std::uint64_t step, std::int64_t piece) {
  return {
      .sample = static_cast<std::uint64_t>(sample),
      .encoder_version = step,
      .dataset_epoch = static_cast<std::uint32_t>(piece),
      .part = static_cast<std::uint16_t>(module.part | static_cast<unsigned>(what) << kKindShift)};
}

TowerObject kind_of(const memory::Key& key) {
  return static_cast<TowerObject>(key.part >> kKindShift);
}

FlatTower::FlatTower(const model::Model& model, const std::string& module) {
  for (const auto& unit : model.units())
    if (unit->module() == module && unit->is_here()) units_.push_back(unit.get());
}

Bytes FlatTower::value_bytes() const {
  std::int64_t bytes = 0;
  for (const parallel::Unit* unit : units_)
    bytes += static_cast<std::int64_t>(unit->shard_value().nbytes());
  return {bytes};
}

Bytes FlatTower::gradient_bytes() const {
  std::int64_t bytes = 0;
  for (const parallel::Unit* unit : units_)
    bytes += static_cast<std::int64_t>(unit->shard_gradient().nbytes());
  return {bytes};
}

at::Tensor FlatTower::values() const {
  std::vector<at::Tensor> parts;
  for (const parallel::Unit* unit : units_) parts.push_back(unit->shard_value());
  return at::cat(parts).cpu();
}

at::Tensor FlatTower::gradient() const {
  std::vector<at::Tensor> parts;
  for (const parallel::Unit* unit : units_) parts.push_back(unit->shard_gradient());
  return at::cat(parts);
}

void FlatTower::set_values(const at::Tensor& from) {
  const at::NoGradGuard no_grad;
  std::int64_t first = 0;
  for (parallel::Unit* unit : units_) {
    unit->discard();
    unit->shard_value().copy_(from.narrow(0, first, unit->shard_value().numel()));
    first += unit->shard_value().numel();
  }
}

void FlatTower::set_gradient(const at::Tensor& from) {
  const at::NoGradGuard no_grad;
  std::int64_t first = 0;
  for (const parallel::Unit* unit : units_) {
    unit->shard_gradient().copy_(from.narrow(0, first, unit->shard_gradient().numel()));
    first += unit->shard_gradient().numel();
  }
}

void FlatTower::clear_gradient() {
  for (parallel::Unit* unit : units_) unit->clear_gradient();
}

at::Tensor Pieces::join(std::span<const memory::PoolObject> pieces,
                        const at::TensorOptions& options) const {
  std::vector<at::Tensor> parts;
  for (const memory::PoolObject& piece : pieces) {
    if (piece.bytes.size() != static_cast<std::size_t>(bytes_of(std::ssize(parts)))) return {};
    parts.push_back(
        at::from_blob(const_cast<std::byte*>(piece.bytes.data()),  // NOLINT: only read
                      {static_cast<std::int64_t>(piece.bytes.size() / options.dtype().itemsize())},
                      options.device(at::kCPU)));
  }
  return std::ssize(parts) == count() ? at::cat(parts) : at::Tensor();
}

Bytes group_bytes(const model::Model& model, const FlowModule& module,
                  std::span<const std::int64_t> rows) {
  const at::TensorOptions options = model.units().front()->whole_options();
  const std::int64_t row =
      model.feature_width(module.name) * static_cast<std::int64_t>(options.dtype().itemsize());
  std::int64_t bytes = 0;
  for (const std::int64_t each : rows)
    bytes += static_cast<std::int64_t>(sizeof(WireSample)) + each * row;
  return {bytes};
}

std::vector<std::byte> write_group(std::span<const FeatureGradient> group) {
  std::vector<std::byte> bytes(sizeof(WireSample) * group.size());
  for (std::size_t i = 0; i < group.size(); ++i) {
    const WireSample sample{
        .sample = group[i].sample, .rows = group[i].values.size(0), .mark = group[i].mark};
    std::memcpy(&bytes[i * sizeof sample], &sample, sizeof sample);
  }
  for (const FeatureGradient& each : group) {
    const at::Tensor host = each.values.contiguous().cpu();
    const std::span<const std::byte> values = bytes_of(host);
    bytes.insert(bytes.end(), values.begin(), values.end());
  }
  return bytes;
}

void run_tower_backward(const at::Tensor& features, const FeatureGradient& gradient) {
  torch::autograd::backward({features}, {gradient.values.to(features.device())});
}

std::vector<FeatureGradient> read_group(std::span<const std::byte> bytes, std::int64_t samples,
                                        const model::Model& model, const FlowModule& module) {
  std::vector<WireSample> heads(static_cast<std::size_t>(samples));
  const std::size_t head_bytes = sizeof(WireSample) * heads.size();
  const bool has_heads = bytes.size() >= head_bytes;
  if (has_heads) std::memcpy(heads.data(), bytes.data(), head_bytes);
  std::vector<std::int64_t> rows;
  for (const WireSample& head : heads) rows.push_back(head.rows);
  TRIB_REQUIRE(has_heads && group_bytes(model, module, rows).count == std::ssize(bytes),
               .what = "train: gradients of features have another size than their samples say",
               .where = module.name, .found = str(bytes.size(), " bytes, ", samples, " samples"));
  const at::TensorOptions options = model.units().front()->whole_options().device(at::kCPU);
  const std::int64_t width = model.feature_width(module.name);
  const std::byte* values = bytes.data() + head_bytes;
  std::vector<FeatureGradient> group;
  for (const WireSample& head : heads) {
    group.push_back({.sample = head.sample,
                     .mark = static_cast<std::uint32_t>(head.mark),
                     .values = at::from_blob(const_cast<std::byte*>(values),  // NOLINT: only read
                                             {head.rows, width}, options)});
    values += group.back().values.nbytes();
  }
  return group;
}

}  // namespace tributary::train
