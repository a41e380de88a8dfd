#pragma once

#include <cstdint>
#include <vector>

#include "studies/dflop/problem_3d.h"

namespace tributary::studies {

/// What a sample asks of the two modules, in shapes of equal work: a sample of long items, or a
/// long one, has more of them than its length says, since attention grows with the square.
struct SampleWork {
  double tiles = 0;   // of the encoder; 0 for text alone
  double tokens = 0;  // of the backbone
  double length = 0;  // in a packed sequence; 0: its tokens

  [[nodiscard]] double packed() const { return length > 0 ? length : tokens; }
};

/// Degrees of the backbone that LoongForge gives for its methods; 0: any. No other method keeps to
/// them.
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
  double node_bytes_per_second = 0;  // of a device to others of its node; 0: as to other nodes
  double feature_bytes = 0;          // of one tile, from encoder to backbone
  GivenDegrees given = {};           // of LoongForge's methods
  bool encoder_trains = true;        // else features may be made ahead of their step
  double capacity_tokens = 0;        // packed sequences are a microbatch each; 0: any microbatch
  std::vector<std::vector<SampleWork>> batches;  // [batches, global samples]
  // Passes timed, or samples looked at, that end a search of DistTrain's plans with the best found:
  // above what 1,024 devices with 2,048 samples ask for.
  std::int64_t budget = std::int64_t{1} << 27;
};

/// The mixture of photos, documents, several images and video of the reference inputs, one batch
/// after another; tiles are of 729 patches.
[[nodiscard]] std::vector<std::vector<SampleWork>> draw_batches(std::int64_t batches,
                                                                std::int64_t global_samples,
                                                                std::uint64_t seed);

/// Sets the mean shapes of the tables to those of the batches, FLOPs in proportion.
void set_mean_shapes(TrainingProblem& problem);

/// errors: Fault::kInput naming what is missing or out of range
void check_problem(const TrainingProblem& problem);

}  // namespace tributary::studies
