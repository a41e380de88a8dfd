#include "memory/progress/producer_memory.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/log.h"

namespace tributary::memory {

ProducerMemory::ProducerMemory(SegmentLayout layout, std::shared_ptr<DeviceMemory> device)
    : segment_(layout), device_(std::move(device)) {
  if (!device_) return;
  Result<std::unique_ptr<DeviceSegment>> made = device_->make_segment(layout.bytes);
  if (!made)
    TRIB_RAISE(Fault::kResource, .what = "memory: device has no room for a copy of the pool",
               .where = str(layout.bytes, " B"), .found = made.refusal().reason,
               .fix = "make the pool smaller, or take cuda out of pool.engines");
  copy_ = std::move(made).value();
}

std::vector<std::span<std::byte>> ProducerMemory::pages_of(std::span<const PageRun> runs) const {
  const std::uint64_t page = segment_.layout().page_bytes;
  std::vector<std::span<std::byte>> parts;
  for (const PageRun& run : runs)
    parts.push_back(segment_.bytes().subspan(run.first * page, run.count * page));
  return parts;
}

void ProducerMemory::write(std::span<const std::byte> object,
                           std::span<const std::span<std::byte>> pages) {
  for (const std::span<std::byte> part : pages) {
    const std::size_t count = std::min(part.size(), object.size());
    std::ranges::copy(object.first(count), part.begin());
    object = object.subspan(count);
  }
  TRIB_CHECK(object.empty(), .what = "memory: the pages of an object do not hold its bytes",
             .found = str(object.size(), " B too many"));
}

bool ProducerMemory::write_copy(std::span<const std::byte> on_device,
                                std::span<const std::span<std::byte>> pages) const {
  if (!copy_) return false;
  std::vector<DeviceCopy> copies;
  for (const std::span<std::byte> part : pages) {
    const auto place = static_cast<std::size_t>(part.data() - segment_.bytes().data());
    const std::size_t count = std::min(part.size(), on_device.size());
    if (count == 0) break;
    copies.push_back(
        {.to = copy_->bytes().data() + place, .from = on_device.data(), .bytes = count});
    on_device = on_device.subspan(count);
  }
  const std::optional<Refusal> fault = device_->copy(copies);
  if (fault) log_warning(fault->reason);
  return !fault;
}

}  // namespace tributary::memory
