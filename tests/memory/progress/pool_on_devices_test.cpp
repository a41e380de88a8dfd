// A pool whose producers have a device, with one of the host's memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/memory/progress/small_pool.h"

namespace tributary::memory {
namespace {

TEST(PoolOnDevices, BringsObjectsToReadersWithAndWithoutOne) {
  Pool pool(0, 2);
  pool.add_reader(
      {.consumer = 0, .engines = {Engine::kCudaMap, Engine::kMemfd}, .device = pool.device});
  pool.add_reader({.consumer = 1, .engines = {Engine::kTcp}});
  PoolProducerOptions options = producer_options(pool.directory.path());
  options.engines = {Engine::kCudaMap, Engine::kMemfd, Engine::kTcp};
  options.device = std::make_shared<HostDevice>(1);
  Encoder encoder(options);
  ASSERT_TRUE(pool.know_producers(1));
  EXPECT_EQ(pool.run_step(0), 8);
  EXPECT_EQ(pool.on_device, 4);
  // Some objects of the next steps have been read ahead.
  pool.device->is_full = true;
  for (std::uint64_t step = 1; step < 6; ++step) EXPECT_EQ(pool.run_step(step), 8);
  EXPECT_LT(pool.on_device, 4 * 6);
  EXPECT_EQ(pool.readers[0]->counts().engines.begin()->second, Engine::kCudaMap);
  EXPECT_EQ(pool.readers[1]->counts().engines.begin()->second, Engine::kTcp);
}

TEST(PoolOnDevices, IsNotJoinedByAProducerWhoseDeviceIsFull) {
  Pool pool;
  PoolProducerOptions options = producer_options(pool.directory.path());
  const auto device = std::make_shared<HostDevice>(1);
  device->is_full = true;
  options.engines = {Engine::kCudaMap};
  options.device = device;
  EXPECT_THAT([&] { PoolProducer{options}; }, testing::ThrowsMessage<Error>(testing::HasSubstr(
                                                  "device has no room for a copy of the pool")));
}

}  // namespace
}  // namespace tributary::memory
