#pragma once

#include <string>
#include <vector>

#include "config/artifact/module_graph.h"
#include "config/plan/plan.h"
#include "cost/stages/rank_groups.h"
#include "cost/stages/stage_costs.h"
#include "schedule/pipeline/pipeline.h"

namespace tributary::cost {

/// Where the table of a tied head lies.
enum class TiedTable {
  kNone,    // the head has a weight of its own
  kShared,  // on the embedding's rank: one table, gathered for the head once more
  kCopied,  // on another rank: a copy there, gradients added over both
};

/// Equal layers of one module on a virtual stage.
struct PlacedRun {
  std::string module = {};
  config::LayerShape shape = {};  // of a copied table untied
  std::int64_t layers = 1;
  bool is_backbone = true;        // works on tokens, not on media
  Media media = Media::kPatches;  // of what is not the backbone's
  bool trains = true;
  bool needs_input_grad = true;              // the first of them
  bool needs_input_grad_after_first = true;  // the others
  config::RecomputePlan recompute = config::RecomputePlan::kNone;
  TiedTable table = TiedTable::kNone;  // of a head that is tied, and of the embedding it is tied to
};

/// What one virtual stage holds, and where.
struct PlacedStage {
  std::vector<PlacedRun> runs;  // in the order of the first layer of each in the forward pass
  config::MeshShape mesh;
  RankGroups groups;
};

/// Whether a module encodes sound: it begins with convolutions.
[[nodiscard]] bool hears(const config::ModuleNode& node);

/// Whether a model encodes sound beside images: samples then have a size for each. What encodes
/// sound alone is given its positions in the place of patches.
[[nodiscard]] bool has_both_media(const config::ModuleGraph& model);

/// Blocks go where the plan says; what comes before them to the first virtual stage of their
/// module, what comes after them to the last. Inline modules run on the first stage of the
/// backbone, each after those that feed it. `apart`: the stages are priced one by one, each as if
/// on a pp coordinate of its own.
///
/// shape: returns [modules of the pipeline][virtual stages]
/// errors: Fault::kInput naming module and key when plan and model do not fit each other
[[nodiscard]] std::vector<std::vector<PlacedStage>> place_layers(const config::Plan& plan,
                                                                 const config::ModuleGraph& model,
                                                                 const config::Cluster& cluster,
                                                                 const schedule::Pipeline& pipeline,
                                                                 bool apart);

/// Refuses what the costs of a plan do not know, and degrees that the layers cannot be cut into.
///
/// errors: Fault::kInput naming module, key and value
void check_placement(const config::Plan& plan, const config::ModuleGraph& model,
                     const config::Cluster& cluster);

}  // namespace tributary::cost
