#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.h"

namespace tributary::config {

enum class LayerKind { kEmbedding, kPatchEmbedding, kConvolution, kBlock, kProjector, kHead };

/// The adapters beside the linear maps of one layer, whose own weights are then frozen.
struct AdapterShape {
  std::int64_t rank = 0;
  std::int64_t maps = 0;        // that have one; 0: the layer has none
  std::int64_t whole = 0;       // sum over maps of the side that every tp rank has whole
  std::int64_t cut = 0;         // of the side that tp cuts
  std::int64_t weights = 0;     // of the maps themselves
  std::int64_t magnitudes = 0;  // of DoRA: outputs of the maps

  /// Values of all adapters over all ranks.
  [[nodiscard]] std::int64_t values() const { return rank * (whole + cut) + magnitudes; }
  friend bool operator==(const AdapterShape&, const AdapterShape&) = default;
};

/// The sizes that decide the cost of one layer. A field that the kind of layer does not have is 0.
struct LayerShape {
  LayerKind kind = LayerKind::kBlock;
  std::int64_t input_width = 0;  // patch values, or features of a projector; else width
  std::int64_t width = 0;        // hidden size, and width of the output
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_width = 0;
  std::int64_t value_width = 0;   // of a head's values; 0: head_width
  std::int64_t query_rank = 0;    // of the latent that queries are made from; 0: there is none
  std::int64_t kv_rank = 0;       // of the latent of keys and values; 0: there is none
  std::int64_t rope_width = 0;    // of head_width, beside a latent: what all heads' keys share
  std::int64_t mlp_width = 0;     // of one expert in a mixture
  std::int64_t mlp_matrices = 3;  // 3 gated, 2 plain
  std::int64_t experts = 0;       // 0: a dense block
  std::int64_t experts_per_token = 0;
  std::int64_t shared_mlp_width = 0;
  std::int64_t hidden_width = 0;  // of a projector of two layers
  std::int64_t merge = 1;         // items that become one at a projector
  std::int64_t uses = 1;          // of a convolution's weights, for each item that it gives
  std::int64_t vocab = 0;         // of embedding and head
  std::int64_t window = 0;        // items that attend to each other, of a causal block the last
                                  // that an item attends to; 0: the whole sequence
  bool causal = true;
  bool tied = false;          // a head that has no weight of its own
  AdapterShape adapter = {};  // of a run with adapters

  [[nodiscard]] std::int64_t value_head_width() const {
    return value_width > 0 ? value_width : head_width;
  }
  friend bool operator==(const LayerShape&, const LayerShape&) = default;
};

/// Consecutive equal layers of a module.
struct LayerRun {
  LayerShape shape = {};
  std::int64_t layers = 1;

  friend bool operator==(const LayerRun&, const LayerRun&) = default;
};

struct ModuleNode {
  std::string name = {};
  std::vector<LayerRun> layers = {};

  /// Appends `count` layers, to the last run if they are equal to it.
  void add(const LayerShape& shape, std::int64_t count = 1);
  friend bool operator==(const ModuleNode&, const ModuleNode&) = default;
};

struct ModuleEdge {
  std::string from;
  std::string to;

  friend bool operator==(const ModuleEdge&, const ModuleEdge&) = default;
};

/// Modules and what flows between them: docs/formats/module_graph.md.
struct ModuleGraph {
  std::string name = {};
  std::vector<ModuleNode> modules = {};  // ascending by name
  std::vector<ModuleEdge> edges = {};

  /// Null when there is no module of that name.
  [[nodiscard]] const ModuleNode* find(std::string_view module) const;
  friend bool operator==(const ModuleGraph&, const ModuleGraph&) = default;
};

inline constexpr std::string_view kModuleGraphFormat = "tributary.module_graph/1";

/// errors: Fault::kInput that lists everything wrong by file and key path; edges in a circle too
[[nodiscard]] ModuleGraph parse_module_graph(std::string_view text, const std::string& where);
[[nodiscard]] ModuleGraph read_module_graph(const std::string& path);
[[nodiscard]] std::string write_module_graph(const ModuleGraph& graph);

/// Reads the layers of a model from its config.json. It knows more families than the trainer runs:
/// docs/formats/module_graph.md lists them.
///
/// errors: Fault::kInput naming file and key: a family that is not listed, a size that is missing
[[nodiscard]] ModuleGraph read_graph_of_model(const std::string& directory);
[[nodiscard]] ModuleGraph parse_graph_of_model(std::string_view text, const std::string& where);

}  // namespace tributary::config
