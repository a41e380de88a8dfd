#include "config/run/module_places.h"

#include <algorithm>
#include <map>
#include <utility>

#include "config/family/known_modules.h"
#include "config/reading/ranges.h"
#include "config/run/run_config.h"

namespace tributary::config {
namespace {

/// The mesh of a section on `ranks` ranks; 0: on as many as its degrees multiply to.
MeshShape mesh_of(const ModuleSection& section, std::int64_t ranks) {
  MeshShape mesh{.pp = section.pp,
                 .dp_replicate = section.dp_replicate,
                 .dp_shard = std::max<std::int64_t>(1, section.dp_shard.count),
                 .cp = section.cp,
                 .ulysses = section.ulysses,
                 .tp = section.tp};
  const std::int64_t others = mesh.world();
  if (section.dp_shard.is_auto() && ranks > 0 && ranks % others == 0)
    mesh.dp_shard = ranks / others;
  return mesh;
}

std::int64_t ranks_of(const ModuleSection& section) {
  if (section.placement != Placement::kSeparate) return 0;
  return section.ranks.empty() ? mesh_of(section, 0).world() : std::ssize(section.ranks);
}

/// Shares out ranks, and gathers the rules that the sections break.
class Placer {
 public:
  Placer(const ParallelSection& parallel, const MeshShape& backbone,
         std::span<const FrontModule> modules, Problems& problems)
      : parallel_(parallel),
        backbone_(backbone),
        modules_(modules),
        world_(backbone.world() + count_separate_ranks(parallel)),
        problems_(problems) {}

  RunPlaces place() {
    for (const ModuleSection& section : parallel_.modules)
      if (section.placement != Placement::kInline) check_module(section);
    take_listed_ranks();
    if (has_problem_) return {};
    std::vector<std::int64_t> left;
    for (std::int64_t rank = 0; rank < world_; ++rank)
      if (!owners_.contains(rank)) left.push_back(rank);
    auto next = left.begin();
    const auto take = [&](std::int64_t count) {
      const auto first = std::exchange(next, next + count);
      return std::vector<std::int64_t>(first, next);
    };
    RunPlaces places{.ranks = take(backbone_.world())};
    std::int64_t next_encoder = world_;
    for (const ModuleSection& section : parallel_.modules) {
      if (section.placement == Placement::kInline) continue;
      std::vector<std::int64_t> ranks = section.ranks;
      if (section.placement == Placement::kColocated)
        ranks.assign(places.ranks.begin(), places.ranks.begin() + ranks_beside(section));
      if (section.placement == Placement::kFlow)
        for (std::int64_t i = 0; i < section.dp_replicate; ++i) ranks.push_back(next_encoder++);
      if (ranks.empty()) ranks = take(ranks_of(section));
      const MeshShape mesh = mesh_of(section, std::ssize(ranks));
      places.modules.push_back({.name = section.module,
                                .placement = section.placement,
                                .ranks = std::move(ranks),
                                .mesh = mesh,
                                .passes = section.passes,
                                .turns = section.turns,
                                .ahead = section.ahead,
                                .features = section.features});
    }
    return places;
  }

 private:
  void add(const ModuleSection& section, const std::string& key, ErrorParts problem) {
    problem.where = str("parallel.", section.module, key);
    problems_.add(std::move(problem));
    has_problem_ = true;
  }

  void check_module(const ModuleSection& section) {
    const FrontModule* module = find_module(modules_, section.module);
    if (module == nullptr) {
      std::string names;
      for (const FrontModule& each : modules_) names += each.name + ", ";
      return add(section, ".placement",
                 {.what = "config: model has no such module",
                  .found = modules_.empty() ? "a text model"
                                            : "a model of " + names + std::string(kBackboneModule),
                  .expected = "inline: nothing to place",
                  .fix = str("set parallel.", section.module, ".placement to inline")});
    }
    if (section.pp > module->layers)
      add(section, str(".pp = ", section.pp),
          {.what = "config: module has fewer layers than stages",
           .found = str(module->layers, " layers"),
           .expected = "at least one layer each",
           .fix = str("set parallel.", section.module, ".pp to ", module->layers, " or less")});
    check_product(section);
  }

  /// The number of ranks of the backbone on which a colocated module lies.
  [[nodiscard]] std::int64_t ranks_beside(const ModuleSection& section) const {
    return section.stages == BesideStages::kFirst ? backbone_.world() / backbone_.pp
                                                  : backbone_.world();
  }

  void check_product(const ModuleSection& section) {
    const bool is_colocated = section.placement == Placement::kColocated;
    if (!is_colocated && section.ranks.empty()) return;
    const std::int64_t ranks = is_colocated ? ranks_beside(section) : std::ssize(section.ranks);
    const MeshShape mesh = mesh_of(section, ranks);
    if (mesh.world() == ranks) return;
    const std::int64_t others = mesh.world() / mesh.dp_shard;
    const std::string key = str("parallel.", section.module);
    std::string fix = str("give ", key, ".ranks ", mesh.world(), " ranks");
    if (ranks % others == 0) {
      fix = str("set ", key, ".dp_shard to ", ranks / others, is_colocated ? "" : ", or " + fix);
    } else if (is_colocated) {
      fix = str("set ", key, " to degrees that multiply to ", ranks);
    }
    add(section, "",
        {.what = "config: degrees of a module do not multiply to its ranks",
         .found = str(describe(mesh), ": ", mesh.world(), " ranks"),
         .expected = str(ranks, " ranks, ",
                         !is_colocated ? "as many as it lists"
                         : section.stages == BesideStages::kFirst
                             ? "as many as the backbone has on its first stage"
                             : "as many as the backbone has"),
         .fix = fix});
  }

  /// Suggests free ranks for those that another module has or the run lacks.
  [[nodiscard]] std::string fix_of_shared(const ModuleSection& section) const {
    std::set<std::int64_t> taken;
    for (const ModuleSection& other : parallel_.modules)
      if (&other != &section && other.placement == Placement::kSeparate)
        taken.insert(other.ranks.begin(), other.ranks.end());
    for (const std::int64_t rank : section.ranks)
      if (rank >= world_) taken.insert(rank);
    return str("set parallel.", section.module, ".ranks to ",
               write_ranks(nearest_ranks(section.ranks, taken)));
  }

  void take_listed_ranks() {
    for (const ModuleSection& section : parallel_.modules) {
      if (section.placement != Placement::kSeparate) continue;
      const auto beyond =
          std::ranges::find_if(section.ranks, [this](std::int64_t rank) { return rank >= world_; });
      const std::string key = str(".ranks = ", write_ranks(section.ranks));
      if (beyond != section.ranks.end())
        add(section, key,
            {.what = "config: rank is not one of the run",
             .found = str("rank ", *beyond),
             .expected = str("ranks 0 to ", world_ - 1, ": backbone ", backbone_.world(), ", ",
                             describe_separate_modules(parallel_)),
             .fix = str("set parallel.", section.module, ".ranks to ",
                        write_range({world_ - std::ssize(section.ranks), world_ - 1}))});
      for (const std::int64_t rank : section.ranks) {
        const auto [owner, is_new] = owners_.emplace(rank, section.module);
        if (is_new) continue;
        add(section, key,
            {.what = "config: rank belongs to two modules",
             .found = str("rank ", rank, ", also of ", owner->second),
             .expected = "ranks of its own",
             .fix = fix_of_shared(section)});
        break;
      }
    }
  }

  const ParallelSection& parallel_;
  const MeshShape& backbone_;
  const std::span<const FrontModule> modules_;
  const std::int64_t world_;
  Problems& problems_;
  std::map<std::int64_t, std::string> owners_;  // of the ranks that sections list
  bool has_problem_ = false;
};

}  // namespace

const ModulePlace* RunPlaces::find(std::string_view module) const {
  const auto found = std::ranges::find(modules, module, &ModulePlace::name);
  return found == modules.end() ? nullptr : &*found;
}

std::vector<ModuleSection> inline_sections() {
  std::vector<ModuleSection> sections;
  for (const std::string& module : encoder_names()) sections.push_back({.module = module});
  return sections;
}

std::vector<std::int64_t> nearest_ranks(const std::vector<std::int64_t>& wanted,
                                        const std::set<std::int64_t>& taken) {
  std::set<std::int64_t> near(wanted.begin(), wanted.end());
  std::erase_if(near, [&taken](std::int64_t rank) { return taken.contains(rank); });
  for (std::int64_t rank = 0; std::ssize(near) < std::ssize(wanted); ++rank)
    if (!taken.contains(rank)) near.insert(rank);
  return {near.begin(), near.end()};
}

std::int64_t count_separate_ranks(const ParallelSection& parallel) {
  std::int64_t ranks = 0;
  for (const ModuleSection& section : parallel.modules) ranks += ranks_of(section);
  return ranks;
}

std::int64_t count_ranks(const ParallelSection& parallel) {
  std::int64_t ranks = 1;
  for (const auto& [key, degree] : degrees_of(parallel))
    if (key != "parallel.ep" && !degree.is_auto()) ranks *= degree.count;
  return ranks + count_separate_ranks(parallel);
}

std::string describe_separate_modules(const ParallelSection& parallel) {
  std::string text;
  for (const ModuleSection& section : parallel.modules)
    if (section.placement == Placement::kSeparate)
      text += str(text.empty() ? "" : ", ", section.module, " ", ranks_of(section));
  return text;
}

RunPlaces place_modules(const ParallelSection& parallel, const MeshShape& backbone,
                        std::span<const FrontModule> modules, Problems& problems) {
  return Placer(parallel, backbone, modules, problems).place();
}

}  // namespace tributary::config
