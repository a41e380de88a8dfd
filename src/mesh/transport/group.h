#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "core/stopwatch.h"
#include "mesh/transport/ledger.h"

namespace tributary::mesh {

enum class Reduce { kSum, kMax };

/// A collective under way, or nothing. Its tensors stay alive and must not change until `wait`.
///
/// Each must be waited for. One that is destroyed under way keeps its tensors until the process
/// ends, since the transport still reads and writes them; unless an error is on its way that is a
/// bug, and a warning says so.
class Pending {
 public:
  /// Waits for the pieces, then does what is left to do locally (sums).
  struct Work {
    virtual ~Work() = default;
    virtual void finish() = 0;
    /// Finishes, by a wait on the host or none at all, and returns whether it has. Never waits for
    /// a collective that runs on a stream of its own.
    [[nodiscard]] virtual bool try_finish() {
      finish();
      return true;
    }
    /// When the last piece arrived, on the clock of now_seconds(); known once it is finished.
    [[nodiscard]] virtual double arrived() const = 0;
  };

  Pending() = default;
  Pending(std::unique_ptr<Work> work, std::shared_ptr<Ledger> ledger, std::string what,
          double issued);
  Pending(Pending&&) noexcept = default;
  Pending& operator=(Pending&& other) noexcept;
  ~Pending();

  [[nodiscard]] bool is_under_way() const { return work_ != nullptr; }
  /// stream: on CUDA devices the current one waits, the host does not
  /// errors: Fault::kResource, ExitCode::kPeerLost or kHang, naming the collective and its group
  void wait();
  /// Ends a message that was sent, on which nothing computed later depends: without a wait of the
  /// current stream. Returns whether it is over; between processes on CPU the host waits until it
  /// is.
  /// errors: as of wait()
  [[nodiscard]] bool try_wait();

 private:
  [[nodiscard]] bool end(bool may_hold_stream);

  std::unique_ptr<Work> work_;
  std::shared_ptr<Ledger> ledger_;
  std::string what_;
  double issued_ = 0;
};

/// How collectives travel: messages of the host between processes on CPU, NCCL between CUDA
/// devices.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::unique_ptr<Pending::Work> all_reduce(at::Tensor values, Reduce reduce) = 0;
  virtual std::unique_ptr<Pending::Work> all_gather(at::Tensor part, at::Tensor whole) = 0;
  virtual std::unique_ptr<Pending::Work> reduce_scatter(at::Tensor whole, at::Tensor part) = 0;
  virtual std::unique_ptr<Pending::Work> all_to_all(at::Tensor send,
                                                    std::vector<std::int64_t> send_rows,
                                                    at::Tensor receive,
                                                    std::vector<std::int64_t> receive_rows) = 0;
  virtual std::unique_ptr<Pending::Work> exchange(at::Tensor send, int to, at::Tensor receive,
                                                  int from) = 0;
  virtual std::unique_ptr<Pending::Work> send(at::Tensor values, int to, int tag) = 0;
  virtual std::unique_ptr<Pending::Work> receive(at::Tensor values, int from, int tag) = 0;
};

/// Ranks that communicate, in one order that all of them agree on.
///
/// All members call the same collectives in the same order, one thread at a time. In a group of one
/// every collective is the identity. Tensors are contiguous and stay so until the wait.
///
/// errors: every collective may raise as Pending::wait does, where a connection has ended before
class Group {
 public:
  /// A group of one rank.
  Group();
  /// Its traffic is added to `total` too; null: to no sum.
  Group(std::string name, std::vector<int> ranks, int index, std::unique_ptr<Transport> transport,
        std::shared_ptr<Ledger> total = nullptr);

  [[nodiscard]] const std::string& name() const { return name_; }  // dp_shard.cp
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] int index() const { return index_; }  // of this rank in the group
  [[nodiscard]] const std::vector<int>& ranks() const { return ranks_; }
  [[nodiscard]] bool is_single() const { return ranks_.size() == 1; }
  [[nodiscard]] Traffic traffic() const;

  /// Every rank gets the sum (or the largest) of all, added in the order of ranks.
  [[nodiscard]] Pending all_reduce(const at::Tensor& values, Reduce reduce = Reduce::kSum) const;
  /// shape: part [n], whole [size * n]: the parts in the order of ranks
  [[nodiscard]] Pending all_gather(const at::Tensor& part, const at::Tensor& whole) const;
  /// Sums `whole` over the ranks; rank i gets the i-th part. `whole` may be changed.
  /// shape: whole [size * n], part [n]
  [[nodiscard]] Pending reduce_scatter(const at::Tensor& whole, const at::Tensor& part) const;
  /// Sends the i-th run of rows to rank i and receives likewise; counts may be 0 and must agree.
  /// shape: send [sum(send_rows), ...], receive [sum(receive_rows), ...]
  [[nodiscard]] Pending all_to_all(const at::Tensor& send, std::span<const std::int64_t> send_rows,
                                   const at::Tensor& receive,
                                   std::span<const std::int64_t> receive_rows) const;
  /// Sends to one member and receives from another at once: a step of a ring.
  [[nodiscard]] Pending exchange(const at::Tensor& send, int to, const at::Tensor& receive,
                                 int from) const;
  /// Sends from one member to another. The receiver knows shape, type and tag; between two members
  /// messages are received in the order in which they are sent. Only in groups that do nothing
  /// else.
  [[nodiscard]] Pending send(const at::Tensor& values, int to, int tag) const;
  [[nodiscard]] Pending receive(const at::Tensor& values, int from, int tag) const;

  // Whole numbers that the host knows: small, blocking.
  [[nodiscard]] std::vector<std::int64_t> sum(std::vector<std::int64_t> values) const;
  [[nodiscard]] std::vector<std::int64_t> largest(std::vector<std::int64_t> values) const;
  [[nodiscard]] std::vector<double> sum(std::vector<double> values) const;
  /// Numbers of all ranks in their order. shape: values [n], n the same on all -> [size * n]
  [[nodiscard]] std::vector<std::int64_t> gather(std::vector<std::int64_t> values) const;
  /// Texts of all ranks in their order.
  [[nodiscard]] std::vector<std::string> gather_text(const std::string& text) const;

 private:
  using Issue = std::function<std::unique_ptr<Pending::Work>()>;
  [[nodiscard]] Pending start(const char* what, std::int64_t bytes, const Issue& issue) const;

  std::string name_;
  std::vector<int> ranks_;
  int index_ = 0;
  std::shared_ptr<Transport> transport_;  // null in a group of one; shared by copies of the group
  std::shared_ptr<Ledger> ledger_;
};

}  // namespace tributary::mesh
