// Collectives of CUDA tensors over messages of the host.
//
// Each copies what it sends to the host, which waits for the device, and copies what it receives
// back when it ends. Slow, but it needs no NCCL, and several ranks may share one device.
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "mesh/transport/transports.h"

namespace tributary::mesh {
namespace {

/// A tensor of the device and the copy of it that travels.
struct Copied {
  at::Tensor on_device;
  at::Tensor on_host;
};

Copied copy_out(const at::Tensor& on_device) { return {on_device, on_device.to(at::kCPU)}; }

Copied make_room(const at::Tensor& on_device) {
  return {on_device, at::empty(on_device.sizes(), on_device.options().device(at::kCPU))};
}

class OnHost final : public Pending::Work {
 public:
  OnHost(std::unique_ptr<Pending::Work> work, std::vector<Copied> results)
      : work_(std::move(work)), results_(std::move(results)) {}

  void finish() override {
    work_->finish();
    const at::NoGradGuard no_grad;
    for (Copied& result : results_) result.on_device.copy_(result.on_host);
  }
  [[nodiscard]] double arrived() const override { return work_->arrived(); }

 private:
  std::unique_ptr<Pending::Work> work_;
  std::vector<Copied> results_;
};

class ThroughHost final : public Transport {
 public:
  explicit ThroughHost(std::unique_ptr<Transport> host) : host_(std::move(host)) {}

  std::unique_ptr<Pending::Work> all_reduce(at::Tensor values, Reduce reduce) override {
    Copied all = copy_out(values);
    return end_with(host_->all_reduce(all.on_host, reduce), {all});
  }
  std::unique_ptr<Pending::Work> all_gather(at::Tensor part, at::Tensor whole) override {
    Copied all = make_room(whole);
    return end_with(host_->all_gather(copy_out(part).on_host, all.on_host), {all});
  }
  std::unique_ptr<Pending::Work> reduce_scatter(at::Tensor whole, at::Tensor part) override {
    Copied own = make_room(part);
    return end_with(host_->reduce_scatter(copy_out(whole).on_host, own.on_host), {own});
  }
  std::unique_ptr<Pending::Work> all_to_all(at::Tensor send, std::vector<std::int64_t> send_rows,
                                            at::Tensor receive,
                                            std::vector<std::int64_t> receive_rows) override {
    Copied in = make_room(receive);
    return end_with(host_->all_to_all(copy_out(send).on_host, std::move(send_rows), in.on_host,
                                      std::move(receive_rows)),
                    {in});
  }
  std::unique_ptr<Pending::Work> exchange(at::Tensor send, int to, at::Tensor receive,
                                          int from) override {
    Copied in = make_room(receive);
    return end_with(host_->exchange(copy_out(send).on_host, to, in.on_host, from), {in});
  }
  std::unique_ptr<Pending::Work> send(at::Tensor values, int to, int tag) override {
    return end_with(host_->send(copy_out(values).on_host, to, tag), {});
  }
  std::unique_ptr<Pending::Work> receive(at::Tensor values, int from, int tag) override {
    Copied in = make_room(values);
    return end_with(host_->receive(in.on_host, from, tag), {in});
  }

 private:
  static std::unique_ptr<Pending::Work> end_with(std::unique_ptr<Pending::Work> work,
                                                 std::vector<Copied> results) {
    return std::make_unique<OnHost>(std::move(work), std::move(results));
  }

  std::unique_ptr<Transport> host_;
};

}  // namespace

std::unique_ptr<Transport> make_through_host(const c10::intrusive_ptr<c10d::Store>& store,
                                             const TransportOptions& options) {
  return std::make_unique<ThroughHost>(make_direct(store, options));
}

}  // namespace tributary::mesh
