#pragma once

#include <cstdint>
#include <vector>

#include "studies/dflop/problem_3d.h"

namespace tributary::studies {

/// What a sample needs of the two modules, in shapes of equal work: attention grows with the
/// square, so long items, or a long sample, have more work than their length says.
struct SampleWork {
  double tiles = 0;   // of the encoder; 0 for text only
  double tokens = 0;  // of the backbone
  double length = 0;  // in a packed sequence; 0: its tokens

  [[nodiscard]] double packed() const { return length > 0 ? length : tokens; }
};

/// Degrees of the backbone given for LoongForge's methods, which others ignore; 0: any.
struct GivenDegrees {
  std::int64_t tp = 0;
  std::int64_t pp = 0;

  [[nodiscard]] bool allow(const Degrees& degrees) const {
    return (tp == 0 || degrees.tp == tp) && (pp == 0 || degrees.pp == pp);
  }
};

/// An encoder and a backbone with the batches that all methods are judged by.
struct TrainingProblem {
  Problem3d costs;                 // tables, devices, memory
  double bytes_per_second = 25e9;  // that a device sends to other nodes
  std::int64_t devices_per_node = 1;
  double node_bytes_per_second = 0;  // of a device within its node; 0: as to other nodes
  double feature_bytes = 0;          // of one tile, from encoder to backbone
  GivenDegrees given = {};           // for LoongForge's methods
  bool encoder_trains = true;        // false: features may be made ahead of their step
  double capacity_tokens = 0;        // packed sequences are a microbatch each; 0: any microbatch
  std::vector<std::vector<SampleWork>> batches;  // [batches, global samples]
  // Passes timed, or samples looked at, after which a search of DistTrain's plans ends with the
  // best so far; more than 1,024 devices with 2,048 samples need.
  std::int64_t budget = std::int64_t{1} << 27;
};

/// Batches of the reference mixture: photos, documents, several images and video, 729 patches a
/// tile.
[[nodiscard]] std::vector<std::vector<SampleWork>> draw_batches(std::int64_t batches,
                                                                std::int64_t global_samples,
                                                                std::uint64_t seed);

/// Sets the mean shapes of the tables to those of the batches, and FLOPs in proportion.
void set_mean_shapes(TrainingProblem& problem);

/// errors: Fault::kInput naming what is missing or out of range
void check_problem(const TrainingProblem& problem);

}  // namespace tributary::studies
