#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/loader/sample_bytes.h"
#include "parallel/layout.h"

namespace tributary::train {

/// The ranks of each replica that read its samples: those whose stage takes pixels. Each sample is
/// read and decoded by one of them and passed on to the other ranks of the replica.
class ReplicaReaders {
 public:
  explicit ReplicaReaders(const parallel::Layout& layout);

  /// Readers of each replica.
  [[nodiscard]] std::int64_t count() const { return std::ssize(readers_.front()); }
  /// Place of this rank among the readers of its replica; -1: it reads nothing.
  [[nodiscard]] std::int64_t own() const { return own_; }
  /// The rank behind a reader of a replica.
  [[nodiscard]] int rank(std::int64_t replica, std::int64_t reader) const {
    return readers_.at(static_cast<std::size_t>(replica)).at(static_cast<std::size_t>(reader));
  }
  /// Whether a replica has more ranks than the one that reads.
  [[nodiscard]] bool pass() const { return ranks_.size() > 1; }

  /// Sends what this rank has read to the others of its replica, with pixel rows only to those that
  /// take pixels. Returns what each reader of the replica has sent, in their order; empty for
  /// itself.
  ///
  /// collective: over `world`, a group of all ranks
  [[nodiscard]] std::vector<std::string> pass_on(
      const mesh::Group& world, const std::function<std::string(data::MediaRows)>& write) const;

 private:
  std::vector<std::vector<int>> readers_;  // [replicas][readers] ranks
  std::vector<int> ranks_;                 // of this replica
  std::int64_t replica_ = 0;
  std::int64_t own_ = -1;
};

}  // namespace tributary::train
