// The transport of a job that is only imagined: its groups have sizes and indices, and no
// processes.
#include "core/error.h"
#include "mesh/transport/transports.h"

namespace tributary::mesh {
namespace {

class Unconnected final : public Transport {
 public:
  std::unique_ptr<Pending::Work> all_reduce(at::Tensor, Reduce) override { raise(); }
  std::unique_ptr<Pending::Work> all_gather(at::Tensor, at::Tensor) override { raise(); }
  std::unique_ptr<Pending::Work> reduce_scatter(at::Tensor, at::Tensor) override { raise(); }
  std::unique_ptr<Pending::Work> all_to_all(at::Tensor, std::vector<std::int64_t>, at::Tensor,
                                            std::vector<std::int64_t>) override {
    raise();
  }
  std::unique_ptr<Pending::Work> exchange(at::Tensor, int, at::Tensor, int) override { raise(); }
  std::unique_ptr<Pending::Work> send(at::Tensor, int, int) override { raise(); }
  std::unique_ptr<Pending::Work> receive(at::Tensor, int, int) override { raise(); }

 private:
  [[noreturn]] static void raise() {
    TRIB_RAISE(Fault::kBug, .what = "mesh: ranks of a job that does not run cannot communicate");
  }
};

}  // namespace

std::unique_ptr<Transport> make_unconnected() { return std::make_unique<Unconnected>(); }

}  // namespace tributary::mesh
