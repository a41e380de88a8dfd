#include "config/artifact/module_graph.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "config/reading/artifact_object.h"
#include "config/reading/yaml_json.h"

namespace tributary::config {
namespace {

using OrderedJson = nlohmann::ordered_json;

const std::vector<std::string>& kind_names() {
  static const std::vector<std::string> names{"embedding", "patch_embedding", "convolution",
                                              "block",     "projector",       "head"};
  return names;
}

/// One size of a layer; the table of them serves reading and writing.
struct SizeKey {
  const char* name;
  std::int64_t LayerShape::*field;
  std::int64_t min;
};

constexpr SizeKey kSizes[]{
    {"input_width", &LayerShape::input_width, 0},
    {"width", &LayerShape::width, 1},
    {"heads", &LayerShape::heads, 0},
    {"kv_heads", &LayerShape::kv_heads, 0},
    {"head_width", &LayerShape::head_width, 0},
    {"value_width", &LayerShape::value_width, 0},
    {"query_rank", &LayerShape::query_rank, 0},
    {"kv_rank", &LayerShape::kv_rank, 0},
    {"rope_width", &LayerShape::rope_width, 0},
    {"mlp_width", &LayerShape::mlp_width, 0},
    {"mlp_matrices", &LayerShape::mlp_matrices, 2},
    {"experts", &LayerShape::experts, 0},
    {"experts_per_token", &LayerShape::experts_per_token, 0},
    {"shared_mlp_width", &LayerShape::shared_mlp_width, 0},
    {"hidden_width", &LayerShape::hidden_width, 0},
    {"merge", &LayerShape::merge, 1},
    {"uses", &LayerShape::uses, 1},
    {"vocab", &LayerShape::vocab, 0},
    {"window", &LayerShape::window, 0},
};

LayerRun read_layers(ArtifactObject json) {
  LayerRun run;
  run.shape.kind = json.choice<LayerKind>("kind", std::nullopt, kind_names());
  run.layers = json.whole("layers", 1, kLayerRange);
  for (const SizeKey& size : kSizes) {
    const bool required = size.field == &LayerShape::width;
    run.shape.*size.field =
        json.whole(size.name, required ? std::nullopt : std::optional(run.shape.*size.field),
                   {size.min, 1 << 26});
  }
  run.shape.causal = json.flag("causal", true);
  run.shape.tied = json.flag("tied", false);
  const LayerShape& shape = run.shape;
  const auto need = [&](const char* key, std::int64_t value, const std::string& expected) {
    if (value < 1) json.refuse(key, expected);
  };
  switch (shape.kind) {
    case LayerKind::kBlock:
      need("heads", shape.heads, "the heads of a block");
      need("kv_heads", shape.kv_heads, "the key-value heads of a block");
      if (shape.heads > 0 && shape.kv_heads > 0 && shape.heads % shape.kv_heads != 0)
        json.refuse("kv_heads", str("a number that divides the ", shape.heads, " heads"));
      need("head_width", shape.head_width, "the width of a block's heads");
      need("mlp_width", shape.mlp_width, "the width of a block's MLP");
      if (shape.kv_rank == 0 && shape.query_rank + shape.rope_width > 0)
        json.refuse("kv_rank", "that of keys and values, beside query_rank and rope_width");
      if (shape.kv_rank > 0 && shape.kv_heads != shape.heads)
        json.refuse("kv_heads", str("the ", shape.heads, " heads: latents give each its own keys"));
      if (shape.rope_width > shape.head_width)
        json.refuse("rope_width", str("at most the ", shape.head_width, " of a head"));
      if (shape.experts > 0 &&
          (shape.experts_per_token < 1 || shape.experts_per_token > shape.experts))
        json.refuse("experts_per_token", str("1 to ", shape.experts));
      break;
    case LayerKind::kEmbedding:
    case LayerKind::kHead:
      need("vocab", shape.vocab, "the rows of the table");
      break;
    case LayerKind::kPatchEmbedding:
    case LayerKind::kConvolution:
    case LayerKind::kProjector:
      need("input_width", shape.input_width, "what the layer takes in");
      break;
  }
  json.refuse_unknown();
  return run;
}

ModuleNode read_module(const std::string& name, ArtifactObject json) {
  ModuleNode module{.name = name};
  for (ArtifactObject& layers : json.items("layers"))
    module.layers.push_back(read_layers(std::move(layers)));
  if (module.layers.empty()) json.refuse("layers", "a list of one layer at least");
  json.refuse_unknown();
  return module;
}

/// Depth-first search along the edges; a module that is met again on its own path closes a circle.
class CircleSearch {
 public:
  explicit CircleSearch(const ModuleGraph& graph) : graph_(graph) {}

  /// `a -> b -> a`; empty when there is none.
  [[nodiscard]] std::string find() {
    for (const ModuleNode& module : graph_.modules)
      if (visit(module.name)) return circle_;
    return {};
  }

 private:
  bool visit(const std::string& name) {
    const auto open = std::find(path_.begin(), path_.end(), name);
    if (open != path_.end()) {
      for (auto each = open; each != path_.end(); ++each) circle_ += *each + " -> ";
      circle_ += name;
      return true;
    }
    if (!done_.insert(name).second) return false;
    path_.push_back(name);
    for (const ModuleEdge& edge : graph_.edges)
      if (edge.from == name && visit(edge.to)) return true;
    path_.pop_back();
    return false;
  }

  const ModuleGraph& graph_;
  std::set<std::string> done_;
  std::vector<std::string> path_;
  std::string circle_;
};

void check_edges(const ModuleGraph& graph, const std::string& where, Problems& problems) {
  bool known = true;
  for (std::size_t i = 0; i < graph.edges.size(); ++i) {
    for (const std::string& end : {graph.edges[i].from, graph.edges[i].to}) {
      if (graph.find(end) != nullptr) continue;
      known = false;
      problems.add({.what = "config: edge names no module",
                    .where = str(where, " edges.", i),
                    .found = escaped(end)});
    }
  }
  const std::string circle = known ? CircleSearch(graph).find() : "";
  if (!circle.empty())
    problems.add({.what = "config: edges go in a circle",
                  .where = where + " edges",
                  .found = circle,
                  .expected = "features that flow one way"});
}

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

/// Adds a problem for each layer whose input width is not the width of the layer before it, and for
/// each edge whose features do not fit the module that they flow to. Edges must name modules.
void check_widths(const ModuleGraph& graph, const std::string& where, Problems& problems) {
  for (const ModuleNode& module : graph.modules) check_layers(module, where, problems);
  for (std::size_t i = 0; i < graph.edges.size(); ++i) check_edge(graph, i, where, problems);
}

}  // namespace

void ModuleNode::add(const LayerShape& shape, std::int64_t count) {
  if (count == 0) return;
  if (!layers.empty() && layers.back().shape == shape)
    layers.back().layers += count;
  else
    layers.push_back({.shape = shape, .layers = count});
}

const ModuleNode* ModuleGraph::find(std::string_view module) const {
  const auto found = std::find_if(modules.begin(), modules.end(),
                                  [&](const ModuleNode& node) { return node.name == module; });
  return found == modules.end() ? nullptr : &*found;
}

ModuleGraph parse_module_graph(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where);
  Problems problems;
  ArtifactObject root(json, where, "", problems);
  problems.raise_if_any(where);
  const std::string format = root.text("format", "");
  TRIB_REQUIRE(format == kModuleGraphFormat, .what = "config: not a module graph of this version",
               .where = root.where("format"), .found = escaped(format),
               .expected = std::string(kModuleGraphFormat));
  ModuleGraph graph{.name = root.text("name", "")};
  for (auto& [name, module] : root.object("modules", true).members())
    graph.modules.push_back(read_module(name, std::move(module)));
  for (ArtifactObject& edge : root.items("edges")) {
    graph.edges.push_back({edge.text("from", std::nullopt), edge.text("to", std::nullopt)});
    edge.refuse_unknown();
  }
  root.refuse_unknown();
  check_edges(graph, where, problems);
  problems.raise_if_any(where);
  check_widths(graph, where, problems);
  problems.raise_if_any(where);
  return graph;
}

ModuleGraph read_module_graph(const std::string& path) {
  return parse_module_graph(read_artifact(path, "a module graph, docs/formats/module_graph.md"),
                            path);
}

std::string write_module_graph(const ModuleGraph& graph) {
  OrderedJson json{{"format", kModuleGraphFormat},
                   {"name", graph.name},
                   {"modules", OrderedJson::object()},
                   {"edges", OrderedJson::array()}};
  const LayerShape standard;
  for (const ModuleNode& module : graph.modules) {
    OrderedJson layers = OrderedJson::array();
    for (const LayerRun& run : module.layers) {
      OrderedJson layer{{"kind", kind_names()[static_cast<std::size_t>(run.shape.kind)]},
                        {"layers", run.layers}};
      for (const SizeKey& size : kSizes)
        if (run.shape.*size.field != standard.*size.field) layer[size.name] = run.shape.*size.field;
      if (!run.shape.causal) layer["causal"] = false;
      if (run.shape.tied) layer["tied"] = true;
      layers.push_back(std::move(layer));
    }
    json["modules"][module.name] = {{"layers", std::move(layers)}};
  }
  for (const ModuleEdge& edge : graph.edges)
    json["edges"].push_back({{"from", edge.from}, {"to", edge.to}});
  return json.dump(2) + "\n";
}

}  // namespace tributary::config
