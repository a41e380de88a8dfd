#pragma once

#include <cstdint>
#include <vector>

#include "plan/chains/chain_tables.h"
#include "plan/problem/measured_degrees.h"

namespace tributary::plan {

/// The ways to cut a module's layers: tp, cp, ulysses, ep.
[[nodiscard]] std::vector<ChainForm> list_forms(const PlanningProblem& problem, std::size_t encoder,
                                                std::uint64_t apart);

/// Data-parallel meshes of a form: whole copies, all shards, or shards inside a node with copies
/// between nodes, as far as the space allows them and the problem has costs for them.
[[nodiscard]] std::vector<config::MeshShape> meshes_of(const PlanningProblem& problem,
                                                       const ChainForm& form, std::int64_t pp,
                                                       std::int64_t dp,
                                                       LeftOut* left_out = nullptr);

}  // namespace tributary::plan
