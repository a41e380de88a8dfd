#include "memory/address/host_id.h"

#include <fstream>
#include <string>
#include <sys/stat.h>

#include "core/error.h"
#include "core/sha256.h"

namespace tributary::memory {
namespace {

std::string read_namespace(const char* path) {
  struct stat status {};
  if (::stat(path, &status) != 0)
    TRIB_RAISE(Fault::kResource, .what = "memory: a namespace of this process cannot be read",
               .where = path, .fix = "mount /proc");
  return str(status.st_dev, ":", status.st_ino);
}

}  // namespace

Digest read_host_id() {
  constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";
  std::string boot_id;
  if (!std::getline(std::ifstream(kBootId), boot_id))
    TRIB_RAISE(Fault::kResource, .what = "memory: the boot id cannot be read", .where = kBootId,
               .fix = "mount /proc");
  return sha256_digest(str(boot_id, " ", read_namespace("/proc/self/ns/net"), " ",
                           read_namespace("/proc/self/ns/pid")));
}

}  // namespace tributary::memory
