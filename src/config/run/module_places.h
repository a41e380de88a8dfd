#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/family/known_modules.h"
#include "config/policies.h"
#include "config/reading/problems.h"
#include "config/run/mesh_shape.h"

namespace tributary::config {

/// Where a module runs that has a mesh of its own.
struct ModulePlace {
  std::string name;
  Placement placement = Placement::kSeparate;  // or kColocated, kFlow
  std::vector<std::int64_t> ranks = {};        // ascending; rank i of `mesh` is ranks[i]
  MeshShape mesh = {};
  std::int64_t passes = 1;                          // of a colocated module
  bool turns = false;                               // likewise
  bool ahead = false;                               // likewise
  FeatureMemory features = FeatureMemory::kDevice;  // likewise
};

/// The ranks of a run, shared out.
struct RunPlaces {
  std::vector<std::int64_t> ranks = {};   // of the backbone's mesh, ascending
  std::vector<ModulePlace> modules = {};  // that are not inline, ascending by name

  /// Null when the module has no mesh of its own.
  [[nodiscard]] const ModulePlace* find(std::string_view module) const;
};

/// As many ranks as are `wanted`, of which none is `taken`: those among them that are free, then
/// the lowest ones.
[[nodiscard]] std::vector<std::int64_t> nearest_ranks(const std::vector<std::int64_t>& wanted,
                                                      const std::set<std::int64_t>& taken);

/// How many ranks belong to separate modules: those that a section lists, else as many as its
/// degrees multiply to.
[[nodiscard]] std::int64_t count_separate_ranks(const ParallelSection& parallel);

/// How many ranks a run takes; a degree of the backbone that is `auto` counts as 1.
[[nodiscard]] std::int64_t count_ranks(const ParallelSection& parallel);

/// `vision 3, audio 2`: the separate modules with their numbers of ranks; empty without any.
[[nodiscard]] std::string describe_separate_modules(const ParallelSection& parallel);

/// Shares out the ranks of a run whose backbone has the mesh `backbone`: separate modules have the
/// ranks that their sections list, the backbone the first of those that are left, and separate
/// modules without a list the next ones, in the order of names. The encoders of a module with
/// placement `flow` are no ranks of the run; they have the numbers behind its ranks. With
/// `parallel.vision_stages` the mesh, and so the ranks of the backbone, holds those of the tower
/// too. `modules` are those of the model, as front_modules returns them.
///
/// errors: adds to `problems`, with key, rule and nearest values: a module that the model lacks,
///         degrees that do not multiply to the ranks, more stages than layers, ranks that are not
///         of the run or belong to two modules
[[nodiscard]] RunPlaces place_modules(const ParallelSection& parallel, const MeshShape& backbone,
                                      std::span<const FrontModule> modules, Problems& problems);

}  // namespace tributary::config
