#pragma once

#include <optional>
#include <vector>

#include "plan/certificate.h"
#include "studies/dflop/problem_3d.h"

namespace tributary::studies {

struct Search3dEffort {
  std::int64_t evaluations = 100'000'000;
  std::int64_t keep = 1;  // max plans to return, one for each pair of degrees
};

struct Search3dResult {
  plan::Certificate certificate;
  std::vector<Plan3d> plans;  // at most `keep`, the best first
};

/// Finds the degrees of an encoder and a backbone, and the number of microbatches, that minimise
/// the published objective, and proves it.
///
/// Splits of the devices are visited by their bound on work; for each pair of degrees the numbers
/// of microbatches are searched by halving. The time of a stage in a step does not fall with
/// smaller microbatches, so the smallest number bounds a whole interval. All devices are used.
/// Ties: fewer devices of the encoder at an equal bound, then (pp, tp, dp) of the backbone, then of
/// the encoder.
///
/// errors: Fault::kInput as check_problem; an infeasible problem is a result that says what binds
/// cost:   1,024 devices, 2,048 samples: bench/studies/dflop_bench
/// source: DFLOP, Algorithm 1 (objective and space, with pp at most the layers); the search is ours
[[nodiscard]] Search3dResult search_3d(const Problem3d& problem, const Search3dEffort& effort = {});

/// The plan whose fuller module needs the least memory on a device, with the smallest microbatches;
/// null where no degrees use all devices.
[[nodiscard]] std::optional<Plan3d> find_leanest(const Problem3d& problem);

/// Says what keeps every plan from fitting, and by how much; empty when one fits.
[[nodiscard]] std::string explain_infeasible(const Problem3d& problem);

}  // namespace tributary::studies
