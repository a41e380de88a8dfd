#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "schedule/correct_costs/cost_corrector.h"
#include "schedule/step_plan.h"

namespace tributary::schedule {

/// An item, or frames of one, and who encodes it.
struct EncodedShare {
  PredictedShare share;
  std::int32_t seat = 0;
  std::int32_t pass = 0;  // of that seat
};

/// The work of an encoder with a mesh of its own in a global batch.
struct EncoderBatch {
  std::int32_t chain = 0;                  // its number in the model
  std::int64_t seats = 1;                  // of all its replicas
  bool is_colocated = false;               // on ranks of the backbone
  std::vector<EncodedShare> used;          // as its items are dealt
  std::vector<EncodedShare> without = {};  // as they would be by uncorrected costs
};

/// What the correction learns from in a global batch: predicted costs, and who ran it.
struct PredictedBatch {
  std::size_t chains = 1;                          // of the model
  std::vector<PredictedShare> shares;              // [samples, chains] uncorrected
  StepPlan plan;                                   // in use
  std::vector<std::int32_t> replica_without = {};  // [samples] with uncorrected costs
  std::vector<EncoderBatch> encoders = {};  // of chains that replicas of the backbone do not run
};

/// What the first rank of a stage measured in a step: of a replica of the backbone, or of a seat of
/// an encoder with a mesh of its own.
struct MeasuredPart {
  std::int32_t encoder = -1;        // number in PredictedBatch::encoders; -1: the backbone
  std::int64_t place = 0;           // replica of the backbone, or seat of the encoder
  std::vector<double> passes = {};  // seconds of each, without waiting for other ranks
  bool as_planned = true;           // false: they hold other samples or items than planned
  double step = 0;                  // seconds of the whole step
};

/// measured / predicted of whole modules, in the first measured step; 0: none yet.
struct CostScales {
  double backbone = 0;                           // with the chains that its replicas run
  std::map<std::int32_t, double> encoders = {};  // of those with meshes of their own, by chain

  /// The scale of a chain; where that of an encoder is not known, the backbone's.
  [[nodiscard]] double of(std::int32_t chain) const;
  friend bool operator==(const CostScales&, const CostScales&) = default;
};

[[nodiscard]] PredictedShare share_of(std::int32_t chain, std::int64_t rows, Nanoseconds time);
[[nodiscard]] Nanoseconds scale_time(Nanoseconds time, double scale);
/// A measured time, at least 1 ns.
[[nodiscard]] Nanoseconds from_seconds(double seconds);

/// The passes of one module of which all parts ran as planned, each with its seconds over all
/// stages; `encoder` as in MeasuredPart.
[[nodiscard]] std::vector<MeasuredBucket> list_buckets(const PredictedBatch& batch,
                                                       std::span<const MeasuredPart> parts,
                                                       std::int32_t encoder, double scale);

enum class Arrangement { kUsed, kWithout };

/// The slowest ranks of a step by measured ratios. Modules on the same ranks run one after the
/// other, on others at once.
[[nodiscard]] Nanoseconds judge_step(const CostCorrector& corrector, const PredictedBatch& batch,
                                     Arrangement arrangement, const CostScales& scales);

}  // namespace tributary::schedule
