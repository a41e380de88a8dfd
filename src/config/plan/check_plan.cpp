#include <algorithm>
#include <map>
#include <set>

#include "config/family/known_modules.h"
#include "config/plan/plan_names.h"
#include "config/reading/problems.h"
#include "config/reading/ranges.h"
#include "config/run/module_places.h"
#include "core/join.h"
#include "core/nearest_name.h"

namespace tributary::config {
namespace {

bool is_name(const std::string& name) {
  return !name.empty() && name[0] >= 'a' && name[0] <= 'z' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
         });
}

class PlanCheck {
 public:
  PlanCheck(const Plan& plan, const std::string& file, Problems& problems)
      : plan_(plan), file_(file), problems_(problems), backbone_(plan.find(kBackboneModule)) {}

  void check() {
    if (backbone_ == nullptr)
      add("modules", "config: plan has no backbone", "", "a module of the name backbone");
    for (const ModulePlan& module : plan_.modules) {
      if (!is_name(module.name))
        add("modules", "config: module has no proper name", escaped(module.name),
            "small letters, digits and _, beginning with a letter");
      check_recompute(module);
      if (module.placement == Placement::kInline) {
        check_inline(module);
      } else {
        check_ranks(module);
        check_stages(module);
        check_schedule(module);
      }
    }
    if (plan_.batch.packing == Packing::kLevel && plan_.batch.balance == Balance::kNone)
      add("batch.packing", "config: packing level needs batch.balance", "level, balance none",
          "batch.balance lpt or lpt_2d, or another packing");
    check_sharing();
    check_edges();
    for (const auto& [module, bytes] : plan_.predicted.peak_bytes)
      if (plan_.find(module) == nullptr)
        refuse_module("predicted.peak_bytes." + path_part(module), module);
  }

 private:
  void add(const std::string& key, const std::string& what, const std::string& found,
           const std::string& expected, const std::string& fix = {}) {
    problems_.add({.what = what,
                   .where = str(file_, " ", key),
                   .found = found,
                   .expected = expected,
                   .fix = fix});
  }
  static std::string key_of(const ModulePlan& module, const std::string& key) {
    return str("modules.", path_part(module.name), ".", key);
  }

  void check_inline(const ModulePlan& module) {
    if (module.name == kBackboneModule)
      return add(key_of(module, "placement"), "config: backbone cannot be inline", "inline",
                 "separate or sliced");
    const bool has_own = !module.ranks.empty() || module.mesh != MeshShape{} ||
                         !module.stages.empty() || module.schedule != PipelineOrder::k1f1b;
    if (has_own)
      add(key_of(module, "placement"), "config: inline module has a place of its own", "inline",
          "no ranks, mesh, stages and schedule: it runs inside the first backbone stage");
  }

  void check_recompute(const ModulePlan& module) {
    if (module.recompute_every > 1 && module.recompute == RecomputePlan::kNone)
      add(key_of(module, "recompute_every"), "config: module recomputes nothing",
          str(module.recompute_every), "no such key, or recompute selective, full or attention");
  }

  void check_ranks(const ModulePlan& module) {
    const bool is_backbone = module.name == kBackboneModule;
    if (is_backbone && module.placement != Placement::kSeparate &&
        module.placement != Placement::kSliced)
      add(key_of(module, "placement"), "config: placement is not one of the backbone",
          plan_name_of(module.placement), "separate or sliced");
    if (module.mesh.world() != std::ssize(module.ranks))
      add(key_of(module, "ranks"), "config: ranks are not those of the mesh",
          str(module.ranks.size(), " ranks, ", describe(module.mesh)),
          str(module.mesh.world(), " ranks"), fix_of_mesh(module));
    check_colocated(module);
    if (module.placement != Placement::kSliced && module.share_percent != 100)
      add(key_of(module, "share_percent"), "config: only a sliced module has a share",
          str(module.share_percent), "no such key, or placement sliced");
  }

  static std::string fix_of_mesh(const ModulePlan& module) {
    const std::int64_t ranks = std::ssize(module.ranks);
    const std::int64_t others = module.mesh.world() / module.mesh.dp_shard;
    const std::string give =
        str("give it ", module.mesh.world(), module.mesh.world() == 1 ? " rank" : " ranks");
    if (ranks == 0 || ranks % others != 0) return give;
    return str("set ", key_of(module, "mesh.dp_shard"), " to ", ranks / others, ", or ", give);
  }

  void check_colocated(const ModulePlan& module) {
    if (module.placement != Placement::kColocated) {
      if (module.passes != 1)
        add(key_of(module, "passes"), "config: only a colocated module has passes of its own",
            str(module.passes), "no such key, or placement colocated");
      if (module.turns)
        add(key_of(module, "turns"), "config: only a colocated module takes turns", "true",
            "no such key, or placement colocated");
      if (module.ahead)
        add(key_of(module, "ahead"), "config: only a colocated module encodes ahead", "true",
            "no such key, or placement colocated");
      if (module.features != FeatureMemory::kDevice)
        add(key_of(module, "features"), "config: only features of a colocated module wait on hosts",
            plan_name_of(module.features), "no such key, or placement colocated");
      return;
    }
    if (backbone_ != nullptr) {
      const std::vector<std::int64_t>& all = backbone_->ranks;
      const auto of_stage = std::ssize(all) / std::max<std::int64_t>(1, backbone_->mesh.pp);
      const std::vector<std::int64_t> first(all.begin(), all.begin() + of_stage);
      if (module.ranks != all && module.ranks != first)
        add(key_of(module, "ranks"), "config: colocated module is not on the backbone's ranks",
            write_ranks(module.ranks),
            str(write_ranks(all),
                first == all ? "" : ", or of the first stage " + write_ranks(first)),
            str("set ", key_of(module, "ranks"), " to ", write_ranks(all)));
    }
    if (module.mesh.pp != 1)
      add(key_of(module, "mesh.pp"), "config: colocated module is cut into stages",
          str(module.mesh.pp), "1: all ranks encode at the same time",
          str("set ", key_of(module, "mesh.pp"), " to 1, and the product of the others to ",
              module.ranks.size()));
    if (module.turns && module.passes == 1)
      add(key_of(module, "turns"), "config: one pass has nothing to take turns with", "passes 1",
          "2 passes or more, or no turns");
    if (module.ahead && module.turns)
      add(key_of(module, "ahead"), "config: module that encodes ahead takes turns by itself",
          "turns true", "one of the two keys");
    if (module.ahead && module.train != TrainMode::kFrozen)
      add(key_of(module, "ahead"), "config: module that trains cannot encode ahead",
          str("train ", plan_name_of(module.train)), "train frozen, or no such key");
    if (module.turns) check_meetings(module, "turns");
    if (module.ahead) check_meetings(module, "ahead");
    if (module.passes > plan_.batch.microbatches)
      add(key_of(module, "passes"), "config: colocated module has more passes than microbatches",
          str(module.passes), str("at most ", plan_.batch.microbatches),
          str("set ", key_of(module, "passes"), " to ", plan_.batch.microbatches));
  }

  /// Ranks of other stages run other passes at a time, so none may wait for them within a pass.
  void check_meetings(const ModulePlan& module, const std::string& key) {
    if (backbone_ == nullptr) return;
    const std::int64_t of_stage =
        std::ssize(backbone_->ranks) / std::max<std::int64_t>(1, backbone_->mesh.pp);
    const MeshShape& mesh = module.mesh;
    const std::int64_t meet = mesh.dp_shard * mesh.cp * mesh.ulysses * mesh.tp;
    if (of_stage % meet != 0)
      add(key_of(module, key), "config: ranks that meet in a pass lie on several stages",
          describe(mesh),
          str("dp_shard x cp x ulysses x tp that divides ", of_stage, ", the ranks of a stage"),
          "give it more dp_replicate and less dp_shard");
  }

  void check_stages(const ModulePlan& module) {
    std::int64_t next = 0;
    for (std::size_t i = 0; i < module.stages.size(); ++i) {
      const StageLayers& stage = module.stages[i];
      const std::string key = key_of(module, str("stages.", i));
      if (stage.embed && i != 0)
        add(key, "config: embedding is not on the first stage", str("stage ", i), "stage 0");
      if (stage.head && i + 1 != module.stages.size())
        add(key, "config: head is not on the last stage", str("stage ", i),
            str("stage ", module.stages.size() - 1));
      if (stage.layers > 0 && stage.first != next)
        add(key, "config: layers do not follow those of the stage before",
            str("layer ", stage.first), str("layer ", next));
      if (stage.layers > 0) next = stage.first + stage.layers;
    }
  }

  void check_schedule(const ModulePlan& module) {
    const std::int64_t pp = module.mesh.pp;
    const std::int64_t stages = std::max<std::int64_t>(std::ssize(module.stages), 1);
    const std::int64_t fixed = virtual_stages_of(module.schedule);
    const bool fits = stages % pp == 0 && (fixed > 0 ? stages == fixed * pp : stages / pp >= 2);
    if (!fits)
      add(key_of(module, "stages"), "config: stages are not those of the schedule",
          str(stages, " stages, pp ", pp, ", schedule ", plan_name_of(module.schedule)),
          fixed > 0 ? str(fixed * pp, " stages") : str("a multiple of ", pp, ", twice at least"));
    const std::int64_t microbatches = plan_.batch.microbatches;
    if (module.schedule == PipelineOrder::kInterleaved && microbatches % pp != 0)
      add("batch.microbatches", "config: microbatches do not fill the groups of interleaved",
          str(microbatches), str("a multiple of pp ", pp),
          str("set it to ", (microbatches / pp + 1) * pp));
    const bool follows = module.name == kBackboneModule ||
                         module.schedule == PipelineOrder::k1f1b ||
                         module.schedule == PipelineOrder::kZbH1;
    if (!follows)
      add(key_of(module, "schedule"), "config: schedule is not one of an encoder",
          plan_name_of(module.schedule), "1f1b or zb_h1: it follows the backbone");
  }

  /// Checks that a rank belongs to one module, unless modules share their devices.
  void check_sharing() {
    std::map<std::int64_t, const ModulePlan*> owner;
    std::map<std::int64_t, std::int64_t> share;
    for (const ModulePlan& module : plan_.modules) {
      for (const std::int64_t rank : module.ranks) {
        if (module.placement == Placement::kSliced) {
          share[rank] += module.share_percent;
          if (share[rank] <= 100) continue;
          add(key_of(module, "share_percent"), "config: slices are larger than the device",
              str(share[rank], " percent of rank ", rank), "at most 100");
          break;
        }
        if (module.placement == Placement::kColocated) continue;
        const ModulePlan*& first = owner[rank];
        if (first == nullptr) {
          first = &module;
          continue;
        }
        add(key_of(module, "ranks"), "config: rank belongs to two modules",
            str("rank ", rank, ", also of ", first->name), "ranks of its own",
            str("set ", key_of(module, "ranks"), " to ",
                write_ranks(nearest_ranks(module.ranks, ranks_beside(module)))));
        break;
      }
    }
    for (const auto& [rank, percent] : share)
      if (owner.contains(rank))
        return add(key_of(*owner[rank], "placement"), "config: rank of a slice is taken whole",
                   str("rank ", rank), "placement sliced for all modules on it");
  }

  /// The ranks of the other modules that share none.
  [[nodiscard]] std::set<std::int64_t> ranks_beside(const ModulePlan& module) const {
    std::set<std::int64_t> ranks;
    for (const ModulePlan& other : plan_.modules)
      if (&other != &module && other.placement != Placement::kColocated)
        ranks.insert(other.ranks.begin(), other.ranks.end());
    return ranks;
  }

  void refuse_module(const std::string& key, const std::string& name) {
    std::vector<std::string> known;
    for (const ModulePlan& module : plan_.modules) known.push_back(module.name);
    const std::string near = nearest_name(name, known);
    add(key, "config: no such module", escaped(name), "one of " + join(known),
        near.empty() ? "" : str("did you mean ", near, "?"));
  }

  void check_edges() {
    std::set<std::pair<std::string, std::string>> seen;
    std::map<std::string, std::vector<std::string>> leads;
    for (std::size_t i = 0; i < plan_.edges.size(); ++i) {
      const EdgePlan& edge = plan_.edges[i];
      const std::string key = str("edges.", i);
      const ModulePlan* from = plan_.find(edge.from);
      const ModulePlan* to = plan_.find(edge.to);
      if (from == nullptr) refuse_module(key + ".from", edge.from);
      if (to == nullptr) refuse_module(key + ".to", edge.to);
      if (from == nullptr || to == nullptr) continue;
      if (!seen.insert({edge.from, edge.to}).second)
        add(key, "config: edge is there twice", str(edge.from, " to ", edge.to), "one");
      const bool flows = from->placement == Placement::kFlow || to->placement == Placement::kFlow;
      if (flows != (edge.via == EdgeVia::kPool))
        add(key + ".via", "config: edge takes the wrong way", plan_name_of(edge.via),
            flows ? "pool, as one end has placement flow"
                  : "exchange, as no end has placement flow");
      leads[edge.from].push_back(edge.to);
    }
    for (const ModulePlan& module : plan_.modules) {
      if (reaches(leads, module.name, module.name))
        add("edges", "config: edges go round in a circle", str("through ", module.name),
            "features that flow one way");
      if (backbone_ != nullptr && module.name != kBackboneModule &&
          !reaches(leads, module.name, backbone_->name) &&
          !reaches(leads, backbone_->name, module.name))
        add("edges", "config: module is not connected to the backbone", module.name,
            str("an edge between ", module.name, " and backbone"),
            str("add an edge from ", module.name, " to its projector, or to ", backbone_->name));
    }
  }

  static bool reaches(const std::map<std::string, std::vector<std::string>>& leads,
                      const std::string& from, const std::string& to) {
    std::set<std::string> seen;
    std::vector<std::string> open{from};
    while (!open.empty()) {
      const auto next = leads.find(open.back());
      open.pop_back();
      if (next == leads.end()) continue;
      for (const std::string& module : next->second) {
        if (module == to) return true;
        if (seen.insert(module).second) open.push_back(module);
      }
    }
    return false;
  }

  const Plan& plan_;
  const std::string& file_;
  Problems& problems_;
  const ModulePlan* backbone_;
};

}  // namespace

const ModulePlan* Plan::find(std::string_view name) const {
  const auto found = std::find_if(modules.begin(), modules.end(),
                                  [name](const ModulePlan& module) { return module.name == name; });
  return found == modules.end() ? nullptr : &*found;
}

std::int64_t virtual_stages_of(PipelineOrder order) {
  switch (order) {
    case PipelineOrder::kInterleaved:
      return 0;
    case PipelineOrder::kZbV:
    case PipelineOrder::kVHalf:
    case PipelineOrder::kVMin:
      return 2;
    case PipelineOrder::kGpipe:
    case PipelineOrder::k1f1b:
    case PipelineOrder::kZbH1:
      break;
  }
  return 1;
}

void check_plan(const Plan& plan, const std::string& where) {
  Problems problems;
  PlanCheck(plan, where, problems).check();
  problems.raise_if_any(where);
}

}  // namespace tributary::config
