#include "config/artifact/check_widths.h"

namespace tributary::config {
namespace {

/// The key by which a layer says what it takes.
const char* input_key(const LayerShape& layer) {
  const bool has_input =
      layer.kind == LayerKind::kConvolution || layer.kind == LayerKind::kProjector;
  return has_input ? "input_width" : "width";
}

std::int64_t input_of(const LayerShape& layer) {
  return input_key(layer) == std::string("width") ? layer.width : layer.input_width;
}

/// Whether items of `features` are what a layer takes.
bool takes(const LayerShape& layer, std::int64_t features) {
  switch (layer.kind) {
    case LayerKind::kPatchEmbedding:
      return true;  // media, whatever flows besides
    case LayerKind::kConvolution:
      return layer.input_width % features == 0;  // some items side by side
    case LayerKind::kProjector:
      // Items side by side; or their mean, as long as one of them.
      return layer.input_width == features || layer.input_width * layer.merge == features;
    case LayerKind::kEmbedding:
    case LayerKind::kBlock:
    case LayerKind::kHead:
      return layer.width == features;
  }
  return false;
}

/// Two projectors may take the same features, one of them their mean.
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

/// Features join what the first layer gives on where that makes tokens of the vocabulary.
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
