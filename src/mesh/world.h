#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include "mesh/transport/group.h"

namespace c10d {
class Store;
}

namespace tributary::mesh {

struct TransportOptions;

/// How the ranks of a job reach each other.
struct WorldOptions {
  c10::Device device = c10::kCPU;  // decides the transport: messages of the host, or NCCL
  bool is_through_host = false;    // collectives of a CUDA device too are messages of the host
  double timeout_seconds = 60;     // of one collective; of all() and saving() at least 600
  std::string interface;           // of sockets; empty: that of the host's name
  bool shares_memory = false;      // all ranks are on this machine: messages need no socket
  // Called as soon as a collective of any group but those of kBeside is under way, by the thread
  // that issued it.
  std::function<void()> on_collective = {};
};

/// What the ranks of a group do in it.
enum class GroupUse {
  kCollectives,  // of tensors on the device
  kMessages,     // pairs of ranks send and receive such tensors, and nothing else is done
  kHost,         // numbers and texts of the host: on CUDA too they go over messages of the host
  kBeside,       // likewise, by a thread beside the one that computes: its traffic is in no sum
};

/// All ranks of a job, whatever modules they run, and the maker of their groups.
///
/// It must outlive and stay where it is as long as any mesh of it.
class World {
 public:
  /// One rank.
  World();
  /// `key` tells the worlds of a store apart.
  /// collective: over all ranks
  /// errors: Fault::kResource when a rank does not come within the timeout
  World(int rank, int size, c10::intrusive_ptr<c10d::Store> store, WorldOptions options,
        const std::string& key = "");
  /// One rank of a job that does not run: its groups have their ranks and refuse to communicate.
  World(int rank, int size);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return all_.size(); }
  [[nodiscard]] c10::Device device() const { return options_.device; }

  /// For numbers and texts of the host.
  [[nodiscard]] const Group& all() const { return all_; }
  /// As all(), for the thread that writes checkpoints: a group serves one thread.
  [[nodiscard]] const Group& saving() const { return saving_; }
  /// The group of these ranks, among which this one is. Groups of one name and first rank have the
  /// same ranks.
  /// collective: over the ranks, which open their groups in one order
  [[nodiscard]] Group open(const std::string& name, const std::vector<int>& ranks,
                           GroupUse use = GroupUse::kCollectives) const;
  /// Sums over all groups but those of kBeside, whose threads compute nothing while they wait.
  [[nodiscard]] Traffic traffic() const { return ledger_->sum(); }
  /// Waits for all ranks. A rank has its connections before the others have theirs: none may leave
  /// until all have opened their groups.
  void meet() const;

 private:
  [[nodiscard]] std::unique_ptr<Transport> make_transport(const TransportOptions& transport,
                                                          GroupUse use) const;

  int rank_ = 0;
  c10::intrusive_ptr<c10d::Store> store_;  // null: the job does not run, or is this rank alone
  WorldOptions options_;
  std::shared_ptr<Ledger> ledger_;
  mutable std::map<std::string, int> opened_;  // groups by name and first rank
  Group all_, saving_;
};

}  // namespace tributary::mesh
