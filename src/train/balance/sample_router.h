#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "data/loader/loader.h"
#include "train/placement/run_lanes.h"

namespace tributary::train {

/// A seat that encodes media of a sample.
struct EncodingSeat {
  std::int32_t edge = 0;  // of the encoder
  std::int32_t seat = 0;

  friend bool operator==(const EncodingSeat&, const EncodingSeat&) = default;
};

/// The rank that reads a sample, and those that take it: ranks of the world, ascending.
struct SampleRoute {
  int reader = 0;
  std::vector<int> replica;             // they train on it
  std::map<int, ModalitySet> taken_by;  // whose rows each rank takes, that encodes; grids all take
};

/// Says which rank reads and decodes which sample, each exactly one, and passes samples on to the
/// ranks that take them: the rows of media to those that encode them, the rest to the ranks of the
/// replica of the backbone.
///
/// A sample is read where its media are encoded, else in the first stage of its replica; ranks that
/// hold the same take turns.
class SampleRouter {
 public:
  SampleRouter(const RunLanes& run, const Meshes& meshes, std::int64_t batch_samples);

  /// `place`: among the samples of the replica. `seats`: of its media, where encoders have ranks of
  /// their own.
  [[nodiscard]] SampleRoute route(std::int64_t replica, std::int64_t place,
                                  std::span<const EncodingSeat> seats) const;
  [[nodiscard]] data::SampleDuty duty_of(const SampleRoute& route) const;

  /// How a rank without a deal reads: samples in turn.
  [[nodiscard]] std::int64_t reader() const { return reader_; }
  [[nodiscard]] std::int64_t readers() const { return std::ssize(first_stage_.front()); }

  /// Keeps the routes of a batch until it is passed on.
  /// units: called by one thread, while another one calls pass_on()
  [[nodiscard]] std::vector<data::SampleDuty> deal(std::int64_t first_index,
                                                   std::span<const std::int32_t> replica_of,
                                                   const DealtItems& media);

  /// Whether samples are taken by other ranks than those that read them.
  [[nodiscard]] bool passes() const { return passes_; }
  /// Sends what this rank has read of a batch; returns the messages of the others. A thread beside
  /// the one that computes may call it.
  /// collective: over all ranks, in the order of the batches
  [[nodiscard]] std::vector<std::string> pass_on(std::int64_t first_index,
                                                 const data::WriteRead& write);
  /// As above, along routes by id, by the thread that computes.
  [[nodiscard]] std::vector<std::string> pass_along(
      const std::map<std::int64_t, SampleRoute>& routes, const data::WriteRead& write) const;

 private:
  [[nodiscard]] std::map<std::int64_t, SampleRoute> routes_of(std::int64_t first_index);
  [[nodiscard]] std::vector<std::string> exchange(const mesh::Group& group,
                                                  const std::map<std::int64_t, SampleRoute>& routes,
                                                  const data::WriteRead& write) const;

  const mesh::Group* world_;
  mesh::Group beside_;  // all ranks, for pass_on()
  bool passes_;
  std::int64_t batch_samples_;
  std::int64_t reader_ = -1;                   // of this rank among those of its replica
  std::vector<std::vector<int>> replicas_;     // [replicas of the backbone] ranks
  std::vector<std::vector<int>> first_stage_;  // likewise, of the first stage
  ModalitySet inline_;  // modalities that the first stage of the backbone encodes
  struct SeatRanks {
    ModalitySet takes;
    std::vector<std::vector<int>> ranks;  // [seats of the encoder] ranks of its first stage
  };
  std::vector<SeatRanks> encoders_;                                    // [edges]
  std::mutex mutex_;                                                   // guards dealt_
  std::map<std::int64_t, std::map<std::int64_t, SampleRoute>> dealt_;  // by first index, then id
};

/// The samples that a rank has taken where encoders have meshes of their own.
struct TakenSamples {
  std::vector<data::EncodedSample> own;      // of its replica of the backbone, with rows of inline
                                             // encoders alone
  std::vector<data::EncodedSample> encoded;  // all, with the rows that it encodes apart
};

/// Parts the samples of a batch that begins with id `first_id`. `replica`: of this rank; -1: none.
[[nodiscard]] TakenSamples part_samples(std::vector<data::EncodedSample> samples,
                                        std::int64_t first_id,
                                        std::span<const std::int32_t> replica_of,
                                        std::int64_t replica, ModalitySet taken_apart);

/// The seats that encode media of each sample: edge after edge, in the order of its media.
/// shape: returns [samples]
[[nodiscard]] std::vector<std::vector<EncodingSeat>> seats_of_samples(const DealtItems& media,
                                                                      std::size_t samples);

}  // namespace tributary::train
