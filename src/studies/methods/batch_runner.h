#pragma once

#include <array>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "studies/methods/chain_timer.h"
#include "studies/methods/training_problem.h"

namespace tributary::studies {

/// How the samples of a batch are dispatched to buckets.
enum class Deal {
  kInOrder,   // round-robin over replicas, then in order; packs padded to capacity
  kBalanced,  // by both loads, longest first with exchanges
  kByTokens,  // by the backbone's load only, in the same way
  kZigZag,    // as kByTokens, or best-fit packs padded to capacity; the longest go
              // to the replicas back and forth, so that they end together
};

/// The buckets of a batch: the samples of every backbone replica in every round.
struct Buckets {
  std::int64_t replicas = 1;
  std::int64_t rounds = 1;
  std::vector<std::vector<std::int32_t>> samples;  // [rounds * replicas] of a batch
  std::vector<SampleWork> work;                    // [rounds * replicas] sums

  [[nodiscard]] std::size_t at(std::int64_t replica, std::int64_t round) const {
    return static_cast<std::size_t>(round * replicas + replica);
  }
  /// The max over replicas of the sum of their values; `of_buckets` has one for each bucket.
  [[nodiscard]] double largest_sum(std::span<const double> of_buckets) const;
};

/// Device seconds of a batch.
struct DeviceSeconds {
  double busy = 0;  // work at the plan's shapes
  // Waits while the replica's own pipeline runs; null: there is none, or they are not counted.
  std::optional<double> bubbles = {};

  DeviceSeconds& operator+=(const DeviceSeconds& other) {
    busy += other.busy;
    if (other.bubbles) bubbles = bubbles.value_or(0) + *other.bubbles;
    return *this;
  }
};

/// Runs batches under plans: the part that all methods share.
class BatchRunner {
 public:
  explicit BatchRunner(const TrainingProblem& problem) : problem_(problem) {}

  /// Seconds of all layers of a module on tp devices, forward and backward.
  [[nodiscard]] double module_seconds(const ModuleCosts& module, std::int64_t tp,
                                      double shape) const;
  [[nodiscard]] double encoder_seconds(std::int64_t tp, double tiles) const {
    return module_seconds(problem_.costs.encoder, tp, tiles);
  }
  [[nodiscard]] double backbone_seconds(std::int64_t tp, double tokens) const {
    return module_seconds(problem_.costs.backbone, tp, tokens);
  }

  /// Seconds of all layers of a module on each bucket: [rounds * replicas].
  [[nodiscard]] std::vector<double> encoder_seconds(std::int64_t tp, const Buckets& buckets) const;
  [[nodiscard]] std::vector<double> backbone_seconds(std::int64_t tp, const Buckets& buckets) const;

  /// The buckets of a batch, valid until the next call. Cached, because families of plans ask for
  /// the same ones repeatedly.
  [[nodiscard]] const Buckets& deal(std::size_t batch, std::int64_t replicas, std::int64_t rounds,
                                    Deal how, const Degrees& encoder,
                                    const Degrees& backbone) const;

  /// Tiles of each encoder replica in each round, longest first, from the buckets that `deal`
  /// returned last: [rounds][replicas]; cached like those.
  [[nodiscard]] const std::vector<std::vector<double>>& deal_tiles(std::size_t batch,
                                                                   const Buckets& buckets,
                                                                   std::int64_t replicas) const;

  /// The buckets of Deal::kInOrder, not cached.
  [[nodiscard]] Buckets deal_in_order(std::size_t batch, std::int64_t replicas,
                                      std::int64_t rounds) const {
    return deal_anew(batch, replicas, rounds, Deal::kInOrder, {}, {});
  }

  /// The longest encoder replica when samples go to replicas round-robin, or longest first. The
  /// work of all replicas counts as busy.
  [[nodiscard]] double encoder_phase(const std::vector<SampleWork>& samples, std::int64_t tp,
                                     std::int64_t replicas, Deal how);
  [[nodiscard]] double encoder_phase(std::size_t batch, const std::vector<std::int32_t>& samples,
                                     std::int64_t tp, std::int64_t replicas, Deal how);
  /// The same for tiles that are already dispatched: [replicas].
  [[nodiscard]] double encoder_phase(std::span<const double> tiles, std::int64_t tp);

  /// The time of a stage in a round.
  using StageCost = std::function<PassSeconds(int stage, std::int64_t replica, std::int64_t round)>;
  /// Devices of a replica that work on a stage; 0 where its work is counted elsewhere.
  using StageDevices = std::function<std::int64_t(int stage)>;
  /// The slowest of the replicas' pipelines; it stops at the first one that takes `limit` seconds.
  /// Counts work and bubbles of the stages' devices. `beside`: devices of each replica that also
  /// wait for its end, and whose work is counted elsewhere.
  [[nodiscard]] double run_pipelines(int stages, const Buckets& buckets,
                                     const StageDevices& devices, const StageCost& cost,
                                     double limit = std::numeric_limits<double>::infinity(),
                                     double beside = 0);

  /// Backward of a stage for the mean of `rounds` microbatches.
  [[nodiscard]] double backward_seconds(const ModuleCosts& module, const Degrees& degrees,
                                        std::int64_t rounds) const;
  /// The exposed seconds of a module's gradient reduction over its replicas: the part beyond the
  /// backward of the last of `rounds` microbatches, which it overlaps.
  [[nodiscard]] double sync_seconds(const ModuleCosts& module, const Degrees& degrees,
                                    std::int64_t rounds) const;
  /// The whole reduction, without overlap.
  [[nodiscard]] double whole_sync_seconds(const ModuleCosts& module, const Degrees& degrees) const;
  /// Bytes a second of a ring between `replicas` replicas of `tp` devices each: its members in a
  /// node share the links of all of them to other nodes.
  [[nodiscard]] double ring_rate(std::int64_t tp, std::int64_t replicas) const;
  /// Seconds to send the features of `tiles` tiles to the backbone over the links of `devices`
  /// devices.
  [[nodiscard]] double feature_seconds(double tiles, std::int64_t devices) const {
    return tiles * problem_.feature_bytes /
           (problem_.bytes_per_second * static_cast<double>(devices));
  }
  /// Seconds to exchange features among `devices` devices; within a node over its own links.
  [[nodiscard]] double exchange_seconds(std::span<const double> tiles, std::int64_t devices) const;
  [[nodiscard]] static PassSeconds split(const ModuleCosts& module, double seconds) {
    return {seconds * module.forward_share, seconds * (1 - module.forward_share)};
  }
  [[nodiscard]] PassSeconds split_encoder(double seconds) const {
    return split(problem_.costs.encoder, seconds);
  }
  [[nodiscard]] PassSeconds split_backbone(double seconds) const {
    return split(problem_.costs.backbone, seconds);
  }

  [[nodiscard]] const TrainingProblem& problem() const { return problem_; }
  /// Device seconds since take_counted() was last called.
  [[nodiscard]] const DeviceSeconds& counted() const { return counted_; }
  [[nodiscard]] DeviceSeconds take_counted() { return std::exchange(counted_, {}); }
  void add(const DeviceSeconds& seconds) { counted_ += seconds; }
  void add_busy(double device_seconds) { counted_.busy += device_seconds; }
  /// The number of passes timed, for the budgets of searches.
  [[nodiscard]] std::int64_t passes() const { return passes_; }

 private:
  const TrainingProblem& problem_;
  /// Tiles of all samples of each round, the largest first.
  [[nodiscard]] std::vector<std::vector<double>> sort_tiles(std::size_t batch,
                                                            const Buckets& buckets) const;
  [[nodiscard]] Buckets deal_anew(std::size_t batch, std::int64_t replicas, std::int64_t rounds,
                                  Deal how, const Degrees& encoder, const Degrees& backbone) const;
  /// Nanoseconds of each sample on a stage of the encoder and on one of the backbone, interleaved.
  [[nodiscard]] std::vector<std::int64_t> loads_of(const std::vector<SampleWork>& samples,
                                                   std::int64_t buckets, const Degrees& encoder,
                                                   const Degrees& backbone) const;
  /// Samples of each packed sequence, in their order or by best fit.
  using Packs = std::vector<std::vector<std::int32_t>>;
  [[nodiscard]] Packs pack_in_order(std::size_t batch) const;
  [[nodiscard]] Packs pack_best_fit(std::size_t batch) const;
  /// Gives each pack to the next replica; unused capacity becomes padding.
  [[nodiscard]] Buckets pad(std::size_t batch, std::int64_t replicas, Packs packs) const;

  using DealKey =
      std::tuple<std::size_t, std::int64_t, std::int64_t, Deal, std::array<std::int64_t, 6>>;
  mutable std::map<DealKey, Buckets> dealt_;
  using RoundTiles = std::vector<std::vector<double>>;                           // [rounds]
  mutable std::map<const Buckets*, RoundTiles> sorted_tiles_;                    // of the samples
  mutable std::map<std::pair<const Buckets*, std::int64_t>, RoundTiles> tiles_;  // of the replicas
  std::int64_t passes_ = 0;
  DeviceSeconds counted_;
};

/// The sums of descending numbers, each given to the emptiest place; empty places are left out.
[[nodiscard]] std::vector<double> deal_longest_first(std::span<const double> numbers,
                                                     std::int64_t places);
/// The same for unsorted numbers, or round-robin; it returns all places.
[[nodiscard]] std::vector<double> deal_out(std::vector<double> numbers, std::int64_t places,
                                           Deal how);

/// Layers of a chain on a stage when they are divided as evenly as possible, first stages first.
[[nodiscard]] std::int64_t layers_of_stage(std::int64_t layers, std::int64_t stages,
                                           std::int64_t stage);

}  // namespace tributary::studies
