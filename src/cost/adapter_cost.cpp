#include "cost/adapter_cost.h"

#include "config/run/optimizer_state.h"

namespace tributary::cost {

using config::LayerKind;
using config::LayerShape;

namespace {

/// Rows of the linear maps of a layer.
double rows_of(const LayerShape& layer, const PassShape& pass) {
  return layer.kind == LayerKind::kProjector ? pass.tokens / static_cast<double>(layer.merge)
                                             : pass.tokens;
}

}  // namespace

void add_adapters(LayerPasses& passes, const config::DeviceModel& device, const LayerShape& layer,
                  const PassShape& pass, const LayerPlacement& placement) {
  const config::AdapterShape& adapter = layer.adapter;
  const double rows = rows_of(layer, pass);
  const double bytes = element_bytes(placement.dtype);
  const auto tp = static_cast<double>(placement.tp);
  const auto maps = static_cast<double>(adapter.maps);
  const auto rank = static_cast<double>(adapter.rank);
  const double whole = static_cast<double>(adapter.whole) / maps;
  const double cut = static_cast<double>(adapter.cut) / tp / maps;
  passes.weight_gradient = DeviceWork(device);
  passes.add_linear(rows, whole, rank, bytes, maps);
  passes.add_linear(rows, rank, cut, bytes, maps);
  // The change is scaled and added to the output of the map; so is its gradient to that of the
  // input.
  const double side = bytes * rows * maps * (whole + cut) / 2;
  passes.forward.add_bytes(5 * side);
  passes.forward.add_kernels(2 * maps);
  passes.input_gradient.add_bytes(5 * side);
  passes.input_gradient.add_kernels(2 * maps);
  if (adapter.magnitudes == 0) return;
  // The lengths of the rows of the changed weight, in f32, and a factor for each output.
  const double weights = static_cast<double>(adapter.weights) / tp;
  passes.forward.add_product(whole, cut, rank, 4, maps);
  passes.forward.add_bytes((bytes + 5 * 4) * weights + 3 * side);
  passes.forward.add_kernels(6 * maps);
  passes.input_gradient.add_bytes(3 * side);
  passes.input_gradient.add_kernels(maps);
  passes.weight_gradient.add_bytes(3 * side);
  passes.weight_gradient.add_kernels(2 * maps);
}

double kept_by_adapters(const LayerShape& layer, const PassShape& pass,
                        const LayerPlacement& placement) {
  const config::AdapterShape& adapter = layer.adapter;
  return element_bytes(placement.dtype) * rows_of(layer, pass) *
         static_cast<double>(adapter.rank * adapter.maps + adapter.magnitudes / placement.tp);
}

double count_adapter_flops(const LayerShape& layer, const PassShape& pass) {
  return 2 * rows_of(layer, pass) *
         static_cast<double>(layer.adapter.rank * (layer.adapter.whole + layer.adapter.cut));
}

MatrixWeights count_adapter_matrices(const config::AdapterShape& adapter) {
  MatrixWeights weights{.all = adapter.values()};
  for (const std::int64_t sides : {adapter.whole, adapter.cut})
    if (adapter.rank * sides >= adapter.maps * config::kFewestQuantised)
      weights.large += adapter.rank * sides;
  return weights;
}

double adapters_of_rank(const config::AdapterShape& adapter, std::int64_t tp) {
  return static_cast<double>(adapter.rank * adapter.whole) +
         static_cast<double>(adapter.rank * adapter.cut + adapter.magnitudes) /
             static_cast<double>(tp);
}

}  // namespace tributary::cost
