#include "mesh/transport/transports.h"

namespace tributary::mesh {
namespace {

class Observed final : public Transport {
 public:
  Observed(std::unique_ptr<Transport> inner, std::function<void()> on_issue)
      : inner_(std::move(inner)), on_issue_(std::move(on_issue)) {}

  std::unique_ptr<Pending::Work> all_reduce(at::Tensor values, Reduce reduce) override {
    return tell(inner_->all_reduce(std::move(values), reduce));
  }
  std::unique_ptr<Pending::Work> all_gather(at::Tensor part, at::Tensor whole) override {
    return tell(inner_->all_gather(std::move(part), std::move(whole)));
  }
  std::unique_ptr<Pending::Work> reduce_scatter(at::Tensor whole, at::Tensor part) override {
    return tell(inner_->reduce_scatter(std::move(whole), std::move(part)));
  }
  std::unique_ptr<Pending::Work> all_to_all(at::Tensor send, std::vector<std::int64_t> send_rows,
                                            at::Tensor receive,
                                            std::vector<std::int64_t> receive_rows) override {
    return tell(inner_->all_to_all(std::move(send), std::move(send_rows), std::move(receive),
                                   std::move(receive_rows)));
  }
  std::unique_ptr<Pending::Work> exchange(at::Tensor send, int to, at::Tensor receive,
                                          int from) override {
    return tell(inner_->exchange(std::move(send), to, std::move(receive), from));
  }
  std::unique_ptr<Pending::Work> send(at::Tensor values, int to, int tag) override {
    return tell(inner_->send(std::move(values), to, tag));
  }
  std::unique_ptr<Pending::Work> receive(at::Tensor values, int from, int tag) override {
    return tell(inner_->receive(std::move(values), from, tag));
  }

 private:
  std::unique_ptr<Pending::Work> tell(std::unique_ptr<Pending::Work> work) const {
    on_issue_();
    return work;
  }

  std::unique_ptr<Transport> inner_;
  std::function<void()> on_issue_;
};

}  // namespace

std::unique_ptr<Transport> make_observed(std::unique_ptr<Transport> inner,
                                         std::function<void()> on_issue) {
  return std::make_unique<Observed>(std::move(inner), std::move(on_issue));
}

}  // namespace tributary::mesh
