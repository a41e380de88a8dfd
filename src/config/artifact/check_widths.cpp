#include "config/artifact/check_widths.h"

namespace tributary::config {
namespace {

/// The key that holds the input width of a layer.
const char* input_key(const LayerShape& layer) {
  const bool has_input =
      layer.kind == LayerKind::kConvolution || layer.kind == LayerKind::kProjector;
  return has_input ? "input_width" : "width";
}

std::int64_t input_of(const LayerShape& layer) {
  return input_key(layer) == std::string("width") ? layer.width : layer.input_width;
}

/// Whether a layer takes items that are `features` wide.
bool takes(const LayerShape& layer, std::int64_t features) {
  switch (layer.kind) {
    case LayerKind::kPatchEmbedding:
      return true;  // it takes media, whatever else flows in
    case LayerKind::kConvolution:
      return layer.input_width % features == 0;  // some items, concatenated
    case LayerKind::kProjector:
      // Several items concatenated, or their mean, which is as wide as one of them.
      return layer.input_width == features || layer.input_width * layer.merge == features;
    case LayerKind::kEmbedding:
    case LayerKind::kBlock:
    case LayerKind::kHead:
      return layer.width == features;
  }
  return false;
}

/// Whether two projectors take the same features; one of them may take the mean of several items.
bool lies_beside(const LayerShape& layer, const LayerShape& before) {
  return layer.kind == LayerKind::kProjector && before.kind == LayerKind::kProjector &&
         (takes(layer, before.input_width) || takes(layer, before.input_width * before.merge));
}

void check_layers(const ModuleNode& module, const std::string& where, Problems& problems) {
  for (std::size_t i = 1; i < module.layers.size(); ++i) {
    const LayerShape& before = module.layers[i - 1].shape;
    const LayerShape& layer = module.layers[i].shape;
    if (takes(layer, before.width) || lies_beside(layer, before)) continue;
    problems.add(
        {.what = "config: layer does not take what the one before it gives",
         .where = str(where, " modules.", module.name, ".layers.", i, '.', input_key(layer)),
         .found = str(input_of(layer)),
         .expected = str("the width before it, ", before.width)});
  }
}

/// Checks that the features of an edge fit the first layer of the module that they flow to. Beside
/// an embedding of the vocabulary they join its output.
void check_edge(const ModuleGraph& graph, std::size_t index, const std::string& where,
                Problems& problems) {
  const ModuleEdge& edge = graph.edges[index];
  const std::int64_t given = graph.find(edge.from)->layers.back().shape.width;
  const LayerShape& first = graph.find(edge.to)->layers.front().shape;
  // Sound is media too.
  if (first.kind == LayerKind::kConvolution || takes(first, given)) return;
  problems.add(
      {.what = "config: module does not take what an edge brings",
       .where = str(where, " edges.", index),
       .found = str(edge.from, " gives ", given, ", ", edge.to, " takes ", input_of(first)),
       .expected = "the same width",
       .fix = str("correct modules.", edge.to, ".layers.0.", input_key(first),
                  ", or put a projector between")});
}

}  // namespace

void check_widths(const ModuleGraph& graph, const std::string& where, Problems& problems) {
  for (const ModuleNode& module : graph.modules) check_layers(module, where, problems);
  for (std::size_t i = 0; i < graph.edges.size(); ++i) check_edge(graph, i, where, problems);
}

}  // namespace tributary::config
