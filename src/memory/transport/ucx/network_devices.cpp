#include "memory/transport/ucx/network_devices.h"

#include <array>
#include <filesystem>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netdb.h>
#include <system_error>

#include "core/text.h"

namespace tributary::memory {
namespace {

namespace fs = std::filesystem;

std::string host_of(const sockaddr* address) {
  const bool is_v4 = address != nullptr && address->sa_family == AF_INET;
  if (!is_v4 && (address == nullptr || address->sa_family != AF_INET6)) return "";
  std::array<char, NI_MAXHOST> text{};
  const socklen_t size = is_v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return text.data();
}

/// As `,mlx5_0:1,mlx5_1:1`.
std::string rdma_ports() {
  std::string ports;
  std::error_code ignored;  // a machine without them has no such folder
  for (const fs::directory_entry& device : fs::directory_iterator("/sys/class/infiniband", ignored))
    for (const fs::directory_entry& port : fs::directory_iterator(device.path() / "ports", ignored))
      ports += str(",", device.path().filename().string(), ":", port.path().filename().string());
  return ports;
}

}  // namespace

std::string network_devices_of(const std::string& host) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next)
    if (host_of(each->ifa_addr) == host)
      return (each->ifa_flags & IFF_LOOPBACK) != 0 ? each->ifa_name : each->ifa_name + rdma_ports();
  return "";
}

}  // namespace tributary::memory
