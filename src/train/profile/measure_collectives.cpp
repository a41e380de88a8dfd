#include "train/profile/measure_collectives.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/ATen.h>

#include "core/error.h"
#include "core/stopwatch.h"
#include "train/profile/layer_times.h"

namespace tributary::train {
namespace {

using config::CollectiveOp;
using mesh::StageLink;

/// Sends there and back between neighbours: an even rank begins, the odd one after it answers.
void send_both_ways(const mesh::Mesh& stages, const at::Tensor& values, int tag) {
  const int own = static_cast<int>(stages.at().pp);
  const int other = own ^ 1;
  if (other >= stages.size()) return;
  const mesh::Group& down = stages.stages(StageLink::kActivationsDown);
  const mesh::Group& up = stages.stages(StageLink::kActivationsUp);
  if (own < other) {
    mesh::Pending answer = up.receive(values, other, tag);
    mesh::Pending call = down.send(values.clone(), other, tag);
    call.wait();
    answer.wait();
  } else {
    down.receive(values, other, tag).wait();
    up.send(values, other, tag).wait();
  }
}

/// Tensors of one collective. Each layer of a step has its own, so the calls take turns with
/// several: tensors that lie in a cache from the call before would travel faster than in a step.
/// Small ones stay in caches all the same, as they do between the layers of a step.
struct Buffers {
  std::vector<at::Tensor> wholes;
  std::vector<at::Tensor> parts;

  Buffers(std::int64_t ranks, Bytes bytes, c10::Device device) {
    constexpr std::int64_t kBytes = std::int64_t{64} << 20;  // more than caches hold
    const std::int64_t values = std::max<std::int64_t>(1, bytes.count / 4 / ranks);
    const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
    const std::int64_t many = std::clamp<std::int64_t>(kBytes / bytes.count, 2, 16);
    for (std::int64_t i = 0; i < many; ++i) {
      wholes.push_back(at::empty({values * ranks}, options).zero_());
      parts.push_back(at::empty({values}, options).zero_());
    }
  }
  [[nodiscard]] std::size_t at(int call) const {
    return static_cast<std::size_t>(call) % wholes.size();
  }
};

void act(CollectiveOp op, const mesh::Mesh& replicas, const mesh::Mesh& stages,
         const Buffers& buffers, int call) {
  const mesh::Group& group = replicas.replicate();
  const at::Tensor& whole = buffers.wholes[buffers.at(call)];
  const at::Tensor& part = buffers.parts[buffers.at(call)];
  switch (op) {
    case CollectiveOp::kAllReduce:
      return group.all_reduce(whole).wait();
    case CollectiveOp::kAllGather:
      return group.all_gather(part, whole).wait();
    case CollectiveOp::kReduceScatter:
      return group.reduce_scatter(whole, part).wait();
    case CollectiveOp::kSend:
      return send_both_ways(stages, whole, call);
    default:
      TRIB_RAISE(Fault::kBug, .what = "train: collective is not measured");
  }
}

}  // namespace

std::vector<Bytes> collective_sizes() {
  std::vector<Bytes> sizes;
  for (std::int64_t bytes = 1 << 10; bytes <= (std::int64_t{16} << 20); bytes *= 4)
    sizes.push_back({bytes});
  return sizes;
}

config::MeasuredCollective measure_collective(CollectiveOp op, const mesh::Mesh& replicas,
                                              const mesh::Mesh& stages, Bytes bytes,
                                              c10::Device device,
                                              const CollectiveOptions& options) {
  const Buffers buffers(replicas.size(), bytes, device);
  const mesh::Group& world = replicas.world();
  (void)world.sum(std::vector<std::int64_t>{0});  // together
  std::vector<double> seconds;
  for (int call = 0; call < options.warm_up + options.calls; ++call) {
    const Stopwatch watch;
    act(op, replicas, stages, buffers, call);
    if (call >= options.warm_up)
      seconds.push_back(watch.seconds() / (op == CollectiveOp::kSend ? 2 : 1));
  }
  const Spread own = spread_of(seconds);
  const std::vector<double> sums = world.sum(std::vector<double>{own.median, own.spread});
  const double ranks = world.size();
  return {.ranks = world.size(),
          .bytes = bytes,
          .time = {std::max<std::int64_t>(1, std::llround(1e9 * sums[0] / ranks))},
          .spread = sums[1] / ranks};
}

}  // namespace tributary::train
