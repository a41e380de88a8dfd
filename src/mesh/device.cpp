#include "mesh/device.h"

#include <exception>
#include <optional>

#include "core/error.h"

namespace tributary::mesh {
namespace {

std::optional<c10::Device> parse_device(const std::string& name) {
  try {
    const c10::Device device(name);
    if (device.is_cpu() || device.is_cuda()) return device;
  } catch (const std::exception&) {  // c10 throws on a name that it does not know
  }
  return std::nullopt;
}

}  // namespace

c10::Device open_device(const std::string& name, int local_rank) {
  const std::optional<c10::Device> device = parse_device(name);
  TRIB_REQUIRE(device.has_value(), .what = "mesh: unknown device", .where = "run.device",
               .found = escaped(name), .expected = "cpu, cuda or cuda:N");
  if (device->is_cpu()) return *device;
  const Devices found = list_devices();
  const auto wanted =
      static_cast<std::size_t>(device->has_index() ? int{device->index()} : local_rank);
  if (wanted >= found.accelerators.size())
    TRIB_RAISE(Fault::kResource, .what = "mesh: no device is present", .where = "run.device",
               .found = str(name, ", number ", wanted, ": ", found.state),
               .fix = "set run.device to cpu");
  return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(wanted)};
}

}  // namespace tributary::mesh
