#pragma once

#include <string>
#include <vector>

#include "core/text.h"
#include "simulate/simai/simai_workload.h"
#include "tests/simulate/plan_case.h"

namespace tributary::simulate {

/// The degrees of a header.
struct HeaderCase {
  std::int64_t tensor = 1;
  std::int64_t expert = 1;
  std::int64_t stages = 1;
  std::int64_t chunks = 1;
  std::int64_t microbatches = 1;
  std::int64_t ranks = 1;
  std::int64_t message = 0;
};

inline std::string header_of(const HeaderCase& of) {
  return str("HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: ", of.tensor,
             " ep: ", of.expert, " pp: ", of.stages, " vpp: ", of.chunks, " ga: ", of.microbatches,
             " all_gpus: ", of.ranks,
             " checkpoints: 0 checkpoint_initiates: 0 pp_comm: ", of.message, "\n");
}

/// `rows` once, or with times more often.
inline std::string file_of(const HeaderCase& header, const std::vector<std::string>& rows,
                           const std::vector<std::string>& in_front = {},
                           const std::vector<std::string>& behind = {}) {
  std::string text;
  std::size_t count = 0;
  const auto add = [&](const std::vector<std::string>& each) {
    for (const std::string& row : each) text += row + "\n";
    count += each.size();
  };
  add(in_front);
  for (std::int64_t i = 0; i < header.microbatches; ++i) add(rows);
  add(behind);
  return str(header_of(header), count, "\n", text);
}

/// A row without collectives.
inline std::string compute_row(const std::string& name, std::int64_t forward,
                               std::int64_t input_gradient, std::int64_t weight_gradient) {
  return str(name, "\t-1\t", forward, "\tNONE\t0\t", input_gradient, "\tNONE\t0\t", weight_gradient,
             "\tNONE\t0\t100");
}

/// All devices on links of 10 GB/s and no latency, so that times are bytes / 10.
inline config::Cluster flat_cluster(std::int64_t devices) {
  config::Cluster cluster = small_cluster(devices);
  cluster.levels = {{.name = "all", .ranks = devices, .bytes_per_s = 10e9}};
  return cluster;
}

}  // namespace tributary::simulate
