#pragma once

#include <string>
#include <vector>

#include "config/artifact/module_graph.h"
#include "config/plan/plan.h"
#include "cost/stages/rank_groups.h"
#include "cost/stages/stage_costs.h"
#include "schedule/pipeline/pipeline.h"

namespace tributary::cost {

/// Where the table of a tied head is.
enum class TiedTable {
  kNone,    // the head has a weight of its own
  kShared,  // on the embedding's rank: one table, gathered again for the head
  kCopied,  // on another rank: a copy there; both add up their gradients
};

/// Equal layers of one module on a virtual stage.
struct PlacedRun {
  std::string module = {};
  config::LayerShape shape = {};  // untied when the table is a copy
  std::int64_t layers = 1;
  bool is_backbone = true;        // works on tokens, not on media
  Media media = Media::kPatches;  // of a run outside the backbone
  bool trains = true;
  bool needs_input_grad = true;              // of the first layer
  bool needs_input_grad_after_first = true;  // of the others
  config::RecomputePlan recompute = config::RecomputePlan::kNone;
  TiedTable table = TiedTable::kNone;  // of a tied head, and of its embedding
};

/// The layers of one virtual stage, and its ranks.
struct PlacedStage {
  std::vector<PlacedRun> runs;  // by the first layer of each in the forward pass
  config::MeshShape mesh;
  RankGroups groups;
};

/// Whether a module encodes sound, that is, begins with convolutions.
[[nodiscard]] bool hears(const config::ModuleNode& node);

/// Whether a model encodes sound as well as images: samples then have a size for each. A model that
/// encodes only sound gets its positions in place of patches.
[[nodiscard]] bool has_both_media(const config::ModuleGraph& model);

/// Blocks go where the plan says. What comes before them goes to the first virtual stage of their
/// module, what comes after them to the last. Inline modules run on the first stage of the
/// backbone, each after those that feed it. With `apart`, stages are priced one by one, each as if
/// on a pp coordinate of its own.
///
/// shape: returns [modules of the pipeline][virtual stages]
/// errors: Fault::kInput naming module and key when plan and model do not fit each other
[[nodiscard]] std::vector<std::vector<PlacedStage>> place_layers(const config::Plan& plan,
                                                                 const config::ModuleGraph& model,
                                                                 const config::Cluster& cluster,
                                                                 const schedule::Pipeline& pipeline,
                                                                 bool apart);

/// Refuses a plan that has no costs, and degrees that cannot cut the layers.
///
/// errors: Fault::kInput naming module, key and value
void check_placement(const config::Plan& plan, const config::ModuleGraph& model,
                     const config::Cluster& cluster);

}  // namespace tributary::cost
