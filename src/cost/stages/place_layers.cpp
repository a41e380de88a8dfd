#include "cost/stages/place_layers.h"

#include <algorithm>
#include <map>

#include "config/family/known_modules.h"
#include "core/error.h"

namespace tributary::cost {
namespace {

using config::LayerKind;
using config::ModuleNode;
using config::ModulePlan;
using config::RecomputePlan;

bool is_before_blocks(LayerKind kind) {
  return kind == LayerKind::kEmbedding || kind == LayerKind::kPatchEmbedding ||
         kind == LayerKind::kConvolution;
}

std::int64_t blocks_of(const ModuleNode& node) {
  std::int64_t blocks = 0;
  for (const config::LayerRun& run : node.layers)
    if (run.shape.kind == LayerKind::kBlock) blocks += run.layers;
  return blocks;
}

/// The modules of a model, each after those that feed it; otherwise in the order of the model.
std::vector<const ModuleNode*> flow_of(const config::ModuleGraph& model) {
  std::vector<const ModuleNode*> left;
  for (const ModuleNode& node : model.modules) left.push_back(&node);
  const auto is_fed = [&](const ModuleNode* node) {
    return std::any_of(model.edges.begin(), model.edges.end(), [&](const config::ModuleEdge& edge) {
      return edge.to == node->name && std::any_of(left.begin(), left.end(), [&](const auto* other) {
               return other->name == edge.from;
             });
    });
  };
  std::vector<const ModuleNode*> ordered;
  while (!left.empty()) {
    const auto next = std::find_if_not(left.begin(), left.end(), is_fed);
    TRIB_REQUIRE(next != left.end(), .what = "cost: modules of the model feed each other",
                 .where = str("model ", model.name), .found = left.front()->name,
                 .expected = "edges without a circle");
    ordered.push_back(*next);
    left.erase(next);
  }
  return ordered;
}

class LayerPlacing {
 public:
  LayerPlacing(const config::Plan& plan, const config::ModuleGraph& model,
               const schedule::Pipeline& pipeline, bool apart)
      : plan_(plan), model_(model), pipeline_(pipeline), map_(pipeline), apart_(apart) {
    flow_ = flow_of(model);
    find_training();
    find_media();
  }

  std::vector<std::vector<PlacedStage>> place(const config::Cluster& cluster) {
    std::vector<std::vector<PlacedStage>> placed;
    for (std::size_t module = 0; module < pipeline_.modules.size(); ++module) {
      const schedule::PipelineModule& chain = pipeline_.modules[module];
      const ModulePlan* of = plan_.find(chain.name);
      TRIB_CHECK(of != nullptr, .what = "cost: pipeline has a module that the plan has not",
                 .found = chain.name);
      const std::vector<RankGroups> groups = groups_of(*of, cluster);
      std::vector<PlacedStage> stages(static_cast<std::size_t>(chain.virtual_stages()));
      for (std::size_t stage = 0; stage < stages.size(); ++stage) {
        stages[stage].mesh = of->mesh;
        stages[stage].groups =
            groups[map_.position_of(static_cast<int>(module), static_cast<int>(stage)).stage];
      }
      if (chain.name == config::kBackboneModule) {
        for (const ModuleNode* node : flow_) {
          const ModulePlan& inlined = *plan_.find(node->name);
          if (inlined.placement == config::Placement::kInline)
            place_module(inlined, *node, stages, true);
        }
      }
      place_module(*of, *model_.find(chain.name), stages, false);
      tie_head(static_cast<int>(module), stages);
      placed.push_back(std::move(stages));
    }
    return placed;
  }

 private:
  [[nodiscard]] bool feeds(const std::string& from, const std::string& to) const {
    const auto joins = [&](const auto& edge) { return edge.from == from && edge.to == to; };
    return std::any_of(model_.edges.begin(), model_.edges.end(), joins) ||
           std::any_of(plan_.edges.begin(), plan_.edges.end(), joins);
  }
  /// Encoders read raw media; the modules that they feed work on the same medium.
  void find_media() {
    const ModuleNode* seen = nullptr;
    std::vector<const ModuleNode*> behind;
    for (const ModuleNode* node : flow_) {
      if (node->name == config::kBackboneModule || node->layers.empty()) continue;
      const bool is_fed = std::any_of(flow_.begin(), flow_.end(), [&](const ModuleNode* before) {
        return feeds(before->name, node->name);
      });
      if (is_fed) {
        behind.push_back(node);
      } else if (!hears(*node)) {
        TRIB_REQUIRE(
            seen == nullptr || seen->layers.front().shape.kind == node->layers.front().shape.kind,
            .what = "cost: encoders of these two kinds cannot be simulated together",
            .where = str("modules.", node->name), .found = str(seen->name, " and ", node->name),
            .expected = "encoders of images and of sound: samples are sized for these");
        seen = node;
      }
    }
    if (!has_both_media(model_)) return;  // with one medium there is only one size
    for (const ModuleNode* node : flow_)
      if (hears(*node)) media_[node->name] = Media::kFrames;
    for (const ModuleNode* node : behind) inherit_media(*node);
  }
  void inherit_media(const ModuleNode& node) {
    const ModuleNode* first = nullptr;
    for (const ModuleNode* before : flow_) {
      if (before == &node) break;
      if (!feeds(before->name, node.name)) continue;
      TRIB_REQUIRE(first == nullptr || media_[first->name] == media_[before->name],
                   .what = "cost: module takes features of two modalities",
                   .where = str("modules.", node.name),
                   .found = str(first->name, " and ", before->name),
                   .expected = "the backbone alone to do so");
      first = before;
    }
    media_[node.name] = media_[first->name];
  }
  /// A module's input needs gradients where a module in front of it trains.
  void find_training() {
    for (const ModuleNode* node : flow_) {
      bool& upstream = upstream_trains_[node->name];
      for (const ModuleNode* before : flow_) {
        if (before == node) break;
        if (feeds(before->name, node->name) &&
            (upstream_trains_[before->name] || trains(before->name)))
          upstream = true;
      }
    }
  }
  [[nodiscard]] bool trains(const std::string& module) const {
    return plan_.find(module)->train != config::TrainMode::kFrozen;
  }

  void place_module(const ModulePlan& of, const ModuleNode& node, std::vector<PlacedStage>& stages,
                    bool is_inline) {
    bool upstream = upstream_trains_.at(of.name);
    const auto add = [&](std::size_t stage, const config::LayerShape& shape, std::int64_t layers,
                         RecomputePlan recompute) {
      if (layers <= 0) return;
      const bool is_trained = of.train == config::TrainMode::kFull ||
                              (of.train == config::TrainMode::kLora && shape.adapter.maps > 0);
      PlacedRun run{.module = of.name,
                    .shape = shape,
                    .layers = layers,
                    .is_backbone = of.name == config::kBackboneModule,
                    .media = media_[of.name],
                    .trains = is_trained,
                    .needs_input_grad = upstream,
                    .needs_input_grad_after_first = upstream || is_trained,
                    .recompute = recompute};
      upstream = run.needs_input_grad_after_first;
      std::vector<PlacedRun>& runs = stages[stage].runs;
      const auto alike = std::ranges::find_if(runs, [&](const PlacedRun& other) {
        return other.module == run.module && other.shape == run.shape &&
               other.recompute == run.recompute &&
               other.needs_input_grad_after_first == run.needs_input_grad;
      });
      if (alike == runs.end())
        runs.push_back(std::move(run));
      else
        alike->layers += layers;
    };
    const auto add_blocks = [&](std::size_t stage, const config::LayerShape& shape,
                                std::int64_t begin, std::int64_t end) {
      if (begin >= end) return;
      const std::int64_t again = config::count_every(of.recompute_every, begin, end - begin);
      add(stage, shape, again, of.recompute);
      add(stage, shape, end - begin - again, RecomputePlan::kNone);
    };
    const std::int64_t blocks = blocks_of(node);
    std::int64_t planned = 0;
    for (const config::StageLayers& stage : of.stages) planned += stage.layers;
    TRIB_REQUIRE(of.stages.empty() || planned == blocks,
                 .what = "cost: stages do not hold the layers of the model",
                 .where = str("modules.", of.name, ".stages"), .found = str(planned, " layers"),
                 .expected = str(blocks, " layers"));
    std::int64_t first = 0;
    bool after_blocks = false;
    for (const config::LayerRun& run : node.layers) {
      if (run.shape.kind != LayerKind::kBlock) {
        after_blocks = after_blocks || (first > 0 && !is_before_blocks(run.shape.kind)) ||
                       run.shape.kind == LayerKind::kHead;
        add(after_blocks && !is_inline ? stages.size() - 1 : 0, run.shape, run.layers,
            RecomputePlan::kNone);
        continue;
      }
      if (is_inline || of.stages.empty()) {
        add_blocks(0, run.shape, first, first + run.layers);
      } else {
        for (std::size_t stage = 0; stage < of.stages.size(); ++stage) {
          const config::StageLayers& layers = of.stages[stage];
          const std::int64_t begin = std::max(layers.first, first);
          const std::int64_t end = std::min(layers.first + layers.layers, first + run.layers);
          add_blocks(stage, run.shape, begin, end);
        }
      }
      first += run.layers;
    }
  }

  /// A tied head uses the embedding's table where it is on the same rank; elsewhere it has a copy.
  void tie_head(int module, std::vector<PlacedStage>& stages) const {
    const int last = static_cast<int>(stages.size()) - 1;
    const bool is_copied =
        apart_ ? last > 0
               : map_.position_of(module, 0).stage != map_.position_of(module, last).stage;
    for (PlacedRun& head : stages[last].runs) {
      if (head.shape.kind != LayerKind::kHead || !head.shape.tied) continue;
      head.table = is_copied ? TiedTable::kCopied : TiedTable::kShared;
      if (is_copied) head.shape.tied = false;
      for (PlacedRun& embedding : stages.front().runs)
        if (embedding.shape.kind == LayerKind::kEmbedding) embedding.table = head.table;
    }
  }

  const config::Plan& plan_;
  const config::ModuleGraph& model_;
  const schedule::Pipeline& pipeline_;
  const schedule::PipelineMap map_;
  bool apart_;
  std::vector<const ModuleNode*> flow_;
  std::map<std::string, bool> upstream_trains_;
  std::map<std::string, Media> media_;  // kPatches where no medium is known
};

}  // namespace

bool hears(const ModuleNode& node) {
  return !node.layers.empty() && node.layers.front().shape.kind == LayerKind::kConvolution;
}

bool has_both_media(const config::ModuleGraph& model) {
  const auto is_fed = [&](const ModuleNode& node) {
    return std::ranges::any_of(
        model.edges, [&](const config::ModuleEdge& edge) { return edge.to == node.name; });
  };
  const auto sees = [&](const ModuleNode& node) {
    return node.name != config::kBackboneModule && !node.layers.empty() && !hears(node) &&
           !is_fed(node);
  };
  return std::ranges::any_of(model.modules, hears) && std::ranges::any_of(model.modules, sees);
}

std::vector<std::vector<PlacedStage>> place_layers(const config::Plan& plan,
                                                   const config::ModuleGraph& model,
                                                   const config::Cluster& cluster,
                                                   const schedule::Pipeline& pipeline, bool apart) {
  check_placement(plan, model, cluster);
  return LayerPlacing(plan, model, pipeline, apart).place(cluster);
}

}  // namespace tributary::cost
