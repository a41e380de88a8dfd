// NCCL in a group of one, which is all that one device can hold: every call of it that a step
// makes.
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "mesh/device.h"
#include "mesh/transport/transports.h"

namespace tributary::mesh {
namespace {

class NcclOfOne : public testing::Test {
 protected:
  void SetUp() override {
    if (list_devices().accelerators.empty()) GTEST_SKIP() << "no CUDA device";
    device_ = open_device("cuda:0", 0);
    store_ = c10::make_intrusive<c10d::HashStore>();
  }
  [[nodiscard]] std::unique_ptr<Transport> open() const {
    return make_nccl(store_, {.name = "one", .interface = {}}, device_.index());
  }
  [[nodiscard]] at::Tensor numbers(std::int64_t count) const {
    return at::arange(count, at::TensorOptions(device_).dtype(at::kFloat)) + 1;
  }

  at::Device device_ = at::kCPU;
  c10::intrusive_ptr<c10d::Store> store_;
};

TEST_F(NcclOfOne, GivesBackWhatItTakes) {
  const auto transport = open();
  const at::Tensor given = numbers(12);
  const at::Tensor sum = given.clone();
  transport->all_reduce(sum, Reduce::kSum)->finish();
  EXPECT_TRUE(at::equal(sum, given));
  const at::Tensor whole = at::zeros_like(given);
  transport->all_gather(given, whole)->finish();
  EXPECT_TRUE(at::equal(whole, given));
  const at::Tensor part = at::zeros_like(given);
  transport->reduce_scatter(given.clone(), part)->finish();
  EXPECT_TRUE(at::equal(part, given));
  const at::Tensor received = at::zeros_like(given);
  transport->all_to_all(given, {12}, received, {12})->finish();
  EXPECT_TRUE(at::equal(received, given));
}

TEST_F(NcclOfOne, RunsOnAStreamOfItsOwn) {
  const auto transport = open();
  const at::Tensor sum = numbers(1 << 20);
  const auto work = transport->all_reduce(sum, Reduce::kSum);
  work->finish();
  EXPECT_EQ(sum.sum().item<double>(), numbers(1 << 20).sum().item<double>());
  EXPECT_GT(work->arrived(), 0);
}

}  // namespace
}  // namespace tributary::mesh
