#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/problem/planning_problem.h"

namespace tributary::plan {

/// How a module with a mesh of its own is cut.
struct ChainChoice {
  config::MeshShape mesh = {};
  config::RecomputePlan recompute = config::RecomputePlan::kNone;
  std::int64_t passes = 0;  // of an encoder on the backbone's ranks; 0: own ranks

  [[nodiscard]] std::int64_t devices() const { return mesh.world(); }
  [[nodiscard]] bool is_colocated() const { return passes > 0; }
  [[nodiscard]] std::int64_t replicas() const { return mesh.dp_replicate * mesh.dp_shard; }
  friend bool operator==(const ChainChoice&, const ChainChoice&) = default;
};

/// The level of recompute of each encoder in the backbone's first stage, initially none.
struct InlineRecompute {
  std::uint64_t bits = 0;  // two bits for each encoder

  [[nodiscard]] config::RecomputePlan of(std::size_t encoder) const {
    return static_cast<config::RecomputePlan>(bits >> 2 * encoder & 3);
  }
  void set(std::size_t encoder, config::RecomputePlan level) {
    bits &= ~(std::uint64_t{3} << 2 * encoder);
    bits |= static_cast<std::uint64_t>(level) << 2 * encoder;
  }
  friend auto operator<=>(const InlineRecompute&, const InlineRecompute&) = default;
};

/// A plan without its cuts: what a search enumerates.
struct PlanChoice {
  ChainChoice backbone = {};
  std::vector<std::optional<ChainChoice>> encoders = {};  // [encoders_of] null: inline
  InlineRecompute inside = {};                            // of the inline ones
  config::PipelineOrder schedule = config::PipelineOrder::k1f1b;
  std::int64_t chunks = 1;  // virtual stages on a rank of the backbone
  std::int64_t microbatches = 1;

  [[nodiscard]] std::int64_t devices() const;
  /// Whether the model is on more than one stage; an encoder with a mesh of its own counts as one.
  [[nodiscard]] bool is_cut() const;
  [[nodiscard]] bool has_colocated() const;
  friend bool operator==(const PlanChoice&, const PlanChoice&) = default;
};

/// Approximate number of passes and messages of one step with all replicas.
[[nodiscard]] double messages_of(const PlanChoice& choice);

/// The first unit of each virtual stage of a chain, then the number of units. The units of the
/// backbone are the embedding (with all inline encoders), each block, and the head; those of an
/// encoder are its blocks.
using ChainCut = std::vector<std::int64_t>;

/// The number of units of a chain.
[[nodiscard]] std::int64_t units_of(const config::ModuleNode& node);

/// The plan of a choice. Encoders take the first ranks in their order, then the backbone; a
/// colocated encoder takes the backbone's ranks. Microbatches are level and have ample room.
///
/// shape:  cuts [encoders with a mesh of their own in order, then the backbone]
[[nodiscard]] config::Plan to_plan(const PlanningProblem& problem, const PlanChoice& choice,
                                   const std::vector<ChainCut>& cuts);

/// Whether the module can be cut by these degrees: heads, key-value heads, widths and experts are
/// divisible, tp stays inside a node, and there are at least as many units as stages.
[[nodiscard]] bool can_cut(const PlanningProblem& problem, const config::ModuleNode& node,
                           const config::MeshShape& mesh);

/// Whether an encoder can be on the ranks of a backbone with this order: postponed weight gradients
/// would meet the encoder's backward, if it has one.
[[nodiscard]] bool can_colocate(const PlanningProblem& problem, const config::ModuleNode& encoder,
                                config::PipelineOrder order);

/// Whether the backbone's first rank is where all its tp groups stay inside nodes.
[[nodiscard]] bool is_aligned(const PlanningProblem& problem, const PlanChoice& choice);

/// `backbone tp 2, pp 4, dp 8 sharded; vision inline; 1f1b, 16 microbatches`
[[nodiscard]] std::string describe(const PlanningProblem& problem, const PlanChoice& choice);

}  // namespace tributary::plan
