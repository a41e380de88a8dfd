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

int device_of_process(int local_rank, int visible) { return visible == 1 ? 0 : local_rank; }

c10::Device open_device(const std::string& name, int local_rank) {
  const std::optional<c10::Device> device = parse_device(name);
  TRIB_REQUIRE(device.has_value(), .what = "mesh: unknown device", .where = "run.device",
               .found = escaped(name), .expected = "cpu, cuda or cuda:N");
  if (device->is_cpu()) return *device;
  const Devices found = list_devices();
  const int visible = static_cast<int>(found.accelerators.size());
  const int wanted =
      device->has_index() ? int{device->index()} : device_of_process(local_rank, visible);
  if (wanted >= visible)
    TRIB_RAISE(Fault::kResource, .what = "mesh: no device is present", .where = "run.device",
               .found = str(name, ", number ", wanted, ": ", found.state),
               .fix = "set run.device to cpu");
  if (!use_device(wanted))
    TRIB_RAISE(
        Fault::kResource, .what = "mesh: our kernels do not run on the device",
        .where = "run.device",
        .found = str(found.accelerators[static_cast<std::size_t>(wanted)], "; ", found.state),
        .fix = "run `tributary doctor`, or set run.device to another device or to cpu");
  return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(wanted)};
}

}  // namespace tributary::mesh
