// A slow disk, for LD_PRELOAD: each write and sync of a save that is not committed yet takes
// SLOW_DISK_SECONDS longer.

#include <array>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <string>
#include <unistd.h>

namespace {

bool is_of_a_save(int file) {
  std::array<char, 4096> target{};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  const ssize_t length = readlink(link.c_str(), target.data(), target.size() - 1);
  return length > 0 && std::strstr(target.data(), "/checkpoints/step-") != nullptr &&
         std::strstr(target.data(), ".tmp-") != nullptr;
}

void wait_for_the_disk(int file) {
  const char* const given = std::getenv("SLOW_DISK_SECONDS");
  if (given == nullptr || !is_of_a_save(file)) return;
  const double seconds = std::atof(given);
  timespec rest{.tv_sec = static_cast<time_t>(seconds),
                .tv_nsec = static_cast<long>((seconds - static_cast<time_t>(seconds)) * 1e9)};
  while (nanosleep(&rest, &rest) != 0) {
  }
}

template <class Call>
Call* next(const char* name) {
  return reinterpret_cast<Call*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" ssize_t write(int file, const void* bytes, size_t count) {
  static auto* const call = next<ssize_t(int, const void*, size_t)>("write");
  wait_for_the_disk(file);
  return call(file, bytes, count);
}

extern "C" int fsync(int file) {
  static auto* const call = next<int(int)>("fsync");
  wait_for_the_disk(file);
  return call(file);
}
