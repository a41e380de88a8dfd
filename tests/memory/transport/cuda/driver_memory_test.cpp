// The library over the CUDA driver, with a stand-in for the driver: which calls it makes, and what
// is left when one of them fails. What a device does is not tried here.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

#include "memory/progress/object_buffer.h"
#include "memory/transport/cuda/device_memory.h"
#include "tests/memory/transport/cuda/driver_of_host.h"
#include "tests/memory/transport/object_owner.h"

namespace tributary::memory {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kSegmentBytes = std::uint64_t{600} << 20;  // in three chunks

const DriverOfHost& driver() {
  using Give = const DriverOfHost* (*)();
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  return *reinterpret_cast<Give>(dlsym(library, "tributary_driver_of_host"))();
}

class DriverMemory : public testing::Test {
 protected:
  DriverMemory() { EXPECT_EQ(driver().live(), 0); }  // loads it, in place of a real one
  ~DriverMemory() override {
    driver().fail(nullptr);
    driver().map_writable_only(0);
    EXPECT_EQ(driver().live(), 0);
  }
};

std::optional<Refusal> copy(DeviceMemory& device, std::byte* to, const std::byte* from,
                            std::uint64_t bytes) {
  const DeviceCopy one{.to = to, .from = from, .bytes = bytes};
  return device.copy(std::span(&one, 1));
}

/// One device writes, another one reads: the steps of two processes. Null: every call succeeded.
std::optional<Refusal> share_and_read() {
  const Result<std::shared_ptr<DeviceMemory>> owner = open_device_memory(0);
  if (!owner) return owner.refusal();
  const Result<std::shared_ptr<DeviceMemory>> reader = open_device_memory(1);
  if (!reader) return reader.refusal();
  const auto made = owner.value()->make_segment(kSegmentBytes);
  if (!made) return made.refusal();
  const std::vector<std::byte> bytes = make_bytes(1, 100'000);
  const std::uint64_t place = made.value()->layout().chunk_bytes - 50'000;  // over two chunks
  if (auto fault =
          copy(*owner.value(), made.value()->bytes().data() + place, bytes.data(), bytes.size()))
    return fault;
  Result<std::vector<Descriptor>> chunks = made.value()->export_chunks();
  if (!chunks) return chunks.refusal();
  if (auto obstacle = reader.value()->find_obstacle(owner.value()->id())) return obstacle;
  const auto mapped =
      reader.value()->map_segment(std::move(chunks).value(), made.value()->layout());
  if (!mapped) return mapped.refusal();
  const Result<std::byte*> into = reader.value()->allocate(bytes.size());
  if (!into) return into.refusal();
  const ObjectBuffer buffer(into.value(), bytes.size(), reader.value());
  if (auto fault =
          copy(*reader.value(), into.value(), mapped.value()->bytes().data() + place, bytes.size()))
    return fault;
  std::vector<std::byte> back(bytes.size());
  if (auto fault = copy(*reader.value(), back.data(), into.value(), bytes.size())) return fault;
  EXPECT_TRUE(back == bytes);
  return std::nullopt;
}

TEST_F(DriverMemory, BringsBytesFromOneDeviceToAnother) {
  const auto fault = share_and_read();
  EXPECT_FALSE(fault) << fault->reason;
}

TEST_F(DriverMemory, GivesEverythingBackWhereACallFails) {
  for (const char* call :
       {"cuDeviceGet", "cuDeviceGetUuid", "cuDeviceGetAttribute", "cuDeviceCanAccessPeer",
        "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuMemGetAllocationGranularity",
        "cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess",
        "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle", "cuMemPoolCreate",
        "cuMemPoolSetAttribute", "cuMemAllocFromPoolAsync", "cuMemcpyAsync", "cuStreamCreate",
        "cuStreamSynchronize"}) {
    driver().fail(call);
    const auto fault = share_and_read();
    ASSERT_TRUE(fault) << call;
    EXPECT_EQ(fault->reason, str("memory: ", call, " ended with CUDA_ERROR_OUT_OF_MEMORY"));
    EXPECT_EQ(driver().live(), 0) << call;
  }
}

TEST_F(DriverMemory, IsMappedReadOnlyWhereTheDriverCanDoSo) {
  for (const bool is_read_only : {true, false}) {
    driver().map_writable_only(is_read_only ? 0 : 1);
    const auto device = open_device_memory(0).value();
    const auto made = device->make_segment(1).value();
    const auto mapped = device->map_segment(made->export_chunks().value(), made->layout()).value();
    EXPECT_EQ(mapped->is_read_only(), is_read_only);
    EXPECT_FALSE(made->is_read_only());
  }
}

TEST_F(DriverMemory, TakesNoChunksOfAnotherLayout) {
  const auto device = open_device_memory(0).value();
  const auto made = device->make_segment(kSegmentBytes).value();
  const DeviceLayout layout = made->layout();
  for (const DeviceLayout& other :
       {DeviceLayout{layout.bytes, 0}, DeviceLayout{layout.bytes, layout.chunk_bytes + 1},
        DeviceLayout{layout.bytes / 4, layout.chunk_bytes},
        DeviceLayout{layout.bytes * 2, layout.chunk_bytes * 2}})
    EXPECT_FALSE(device->map_segment(made->export_chunks().value(), other)) << other.chunk_bytes;
}

TEST_F(DriverMemory, SaysWhichDeviceIsOutOfReach) {
  const auto device = open_device_memory(0).value();
  EXPECT_FALSE(device->find_obstacle(device->id()));
  EXPECT_FALSE(device->find_obstacle({std::byte{2}}));
  EXPECT_THAT(device->find_obstacle({std::byte{3}})->reason,
              HasSubstr("no peer access to device 2"));
  EXPECT_THAT(device->find_obstacle({std::byte{9}})->reason,
              HasSubstr("none of the 3 that this process sees"));
  EXPECT_EQ(open_device_memory(3).refusal().code, "device");
}

TEST_F(DriverMemory, ServesEveryThread) {
  const auto device = open_device_memory(0).value();
  std::jthread([&] {
    std::byte* begin = device->allocate(8).value();
    const std::byte one{1};
    EXPECT_FALSE(copy(*device, begin, &one, 1));
    device->free(begin);
  });
}

}  // namespace
}  // namespace tributary::memory
