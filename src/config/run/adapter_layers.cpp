#include "config/run/adapter_layers.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"

namespace tributary::config {
namespace {

/// The number of the layer in the name of a map: 3 of visual.blocks.3.attn.qkv.
std::size_t layer_of(const LinearMap& map) {
  const std::string& name = map.name;
  for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
    if (std::isdigit(static_cast<unsigned char>(name[dot + 1])) != 0)
      return std::stoul(name.substr(dot + 1));
  TRIB_RAISE(Fault::kBug, .what = "config: linear map of no layer", .found = name);
}

void add_map(LayerShape& layer, const LinearMap& map, const ModelSection& model) {
  AdapterShape& adapter = layer.adapter;
  // Maps whose inputs tp cuts give the width of the layer, the others take it.
  const bool by_rows = map.out == layer.width && map.in != layer.width;
  adapter.rank = model.adapter.rank;
  adapter.maps += 1;
  adapter.whole += by_rows ? map.out : map.in;
  adapter.cut += by_rows ? map.in : map.out;
  adapter.weights += map.in * map.out;
  if (model.adapter.kind == AdapterKind::kDora) adapter.magnitudes += map.out;
}

/// All layers of a module one by one.
std::vector<LayerShape> list_layers(const ModuleNode& node) {
  std::vector<LayerShape> layers;
  for (const LayerRun& run : node.layers)
    layers.insert(layers.end(), static_cast<std::size_t>(run.layers), run.shape);
  return layers;
}

}  // namespace

ModuleGraph add_adapters(ModuleGraph graph, const ModelSection& model,
                         std::span<const LinearMap> maps) {
  for (ModuleNode& node : graph.modules) {
    std::vector<LayerShape> layers = list_layers(node);
    std::vector<LayerShape*> with_maps;
    for (LayerShape& layer : layers)
      if (layer.kind == LayerKind::kBlock) with_maps.push_back(&layer);
    const bool has_blocks = !with_maps.empty();
    for (LayerShape& layer : layers)
      if (!has_blocks && layer.kind == LayerKind::kProjector) with_maps.push_back(&layer);
    std::vector<const LinearMap*> own;
    for (const LinearMap& map : maps)
      if (map.module == node.name) own.push_back(&map);
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (!has_adapter(model, node.name, own[i]->name)) continue;
      // The layers of a projector have equally many maps each.
      const std::size_t layer = has_blocks ? layer_of(*own[i]) : i * with_maps.size() / own.size();
      TRIB_CHECK(layer < with_maps.size(), .what = "config: linear map of a layer beyond the model",
                 .where = own[i]->name, .found = str(layer), .expected = str(with_maps.size()));
      add_map(*with_maps[layer], *own[i], model);
    }
    node.layers.clear();
    for (const LayerShape& layer : layers) node.add(layer);
  }
  return graph;
}

}  // namespace tributary::config
