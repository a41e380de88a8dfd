#include <algorithm>
#include <chrono>
#include <cstdlib>

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "core/error.h"
#include "mesh/transport/transports.h"

namespace tributary::mesh {
namespace {

/// A collective on NCCL's own stream; `finish` makes the current stream wait, not the host.
class OnStream final : public Pending::Work {
 public:
  OnStream(c10::intrusive_ptr<c10d::Work> work, std::vector<at::Tensor> kept)
      : work_(std::move(work)), kept_(std::move(kept)) {}
  void finish() override {
    work_->wait();
    arrived_ = now_seconds();
  }
  bool try_finish() override {
    if (!work_->isCompleted()) return false;
    arrived_ = now_seconds();
    return true;
  }
  [[nodiscard]] double arrived() const override { return arrived_; }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  std::vector<at::Tensor> kept_;
  double arrived_ = 0;
};

class Nccl final : public Transport {
 public:
  explicit Nccl(c10::intrusive_ptr<c10d::ProcessGroupNCCL> group) : group_(std::move(group)) {}

  std::unique_ptr<Pending::Work> all_reduce(at::Tensor values, Reduce reduce) override {
    const c10d::AllreduceOptions options{.reduceOp = reduce == Reduce::kSum ? c10d::ReduceOp::SUM
                                                                            : c10d::ReduceOp::MAX};
    std::vector<at::Tensor> tensors{values};
    return keep(group_->allreduce(tensors, options), {values});
  }
  std::unique_ptr<Pending::Work> all_gather(at::Tensor part, at::Tensor whole) override {
    return keep(group_->_allgather_base(whole, part), {part, whole});
  }
  std::unique_ptr<Pending::Work> reduce_scatter(at::Tensor whole, at::Tensor part) override {
    return keep(group_->_reduce_scatter_base(part, whole), {part, whole});
  }
  std::unique_ptr<Pending::Work> all_to_all(at::Tensor send, std::vector<std::int64_t> send_rows,
                                            at::Tensor receive,
                                            std::vector<std::int64_t> receive_rows) override {
    return keep(group_->alltoall_base(receive, send, receive_rows, send_rows), {send, receive});
  }
  std::unique_ptr<Pending::Work> exchange(at::Tensor send, int to, at::Tensor receive,
                                          int from) override {
    std::vector<at::Tensor> out{send};
    std::vector<at::Tensor> in{receive};
    group_->startCoalescing();
    group_->send(out, to, 0);
    group_->recv(in, from, 0);
    return keep(group_->endCoalescing(), {send, receive});
  }
  // Messages of a pair travel in their order, so tags are not needed.
  std::unique_ptr<Pending::Work> send(at::Tensor values, int to, int /*tag*/) override {
    std::vector<at::Tensor> out{values};
    return keep(group_->send(out, to, 0), {values});
  }
  std::unique_ptr<Pending::Work> receive(at::Tensor values, int from, int /*tag*/) override {
    std::vector<at::Tensor> in{values};
    return keep(group_->recv(in, from, 0), {values});
  }

 private:
  static std::unique_ptr<Pending::Work> keep(c10::intrusive_ptr<c10d::Work> work,
                                             std::vector<at::Tensor> tensors) {
    return std::make_unique<OnStream>(std::move(work), std::move(tensors));
  }

  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
};

/// Turns off torch's own watch, which counts from when a collective is enqueued and ends the
/// process by a signal: mesh::Health judges time, and names the root cause and its exit code.
/// Variables that the user has set stay. torch reads them when a group is constructed.
void leave_time_to_health() {
  constexpr int kKeepWhatIsSet = 0;
  (void)setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", kKeepWhatIsSet);
  (void)setenv("TORCH_NCCL_ENABLE_MONITORING", "0", kKeepWhatIsSet);
}

void connect(c10d::ProcessGroupNCCL& group, c10::Device device) {
  try {
    group.eagerConnectSingleDevice(device);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    TRIB_REQUIRE(text.find("Duplicate GPU") == std::string::npos,
                 .what = "mesh: two ranks share a device", .where = "run.device",
                 .found = device.str(), .expected = "a device for each rank of a machine",
                 .fix = "start fewer ranks, or set parallel.collectives=host");
    throw;
  }
}

}  // namespace

std::unique_ptr<Transport> make_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                     const TransportOptions& options, int device) {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  leave_time_to_health();
  const auto settings = c10d::ProcessGroupNCCL::Options::create();
  settings->timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout_seconds * 1000));
  settings->group_name = options.name;
  auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      c10::make_intrusive<c10d::PrefixStore>(options.name, store), options.index, options.size,
      settings);
  // Connects before the first step. The pairs of a group of messages connect as they meet
  // (mesh.cpp): on one communicator a receive that waits would hold up a send.
  if (!options.only_messages) connect(*group, guard.current_device());
  return std::make_unique<Nccl>(std::move(group));
}

}  // namespace tributary::mesh
