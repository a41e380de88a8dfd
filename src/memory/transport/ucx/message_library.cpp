#include <array>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <string>
#include <utility>

#include "core/text.h"
#include "memory/transport/ucx/message_worker.h"

namespace tributary::memory {
namespace {

/// What UCX reads when it is loaded; a setting of the user stays.
constexpr std::array<std::pair<const char*, const char*>, 10> kSettings = {{
    {"UCX_HANDLE_ERRORS", "none"},  // no handlers of signals
    {"UCX_LOG_FILE", "stderr"},     // standard output is the program's answer
    {"UCX_WARN_UNUSED_ENV_VARS", "n"},
    // Without these two, peers of one host whose death is to be noticed talk over TCP.
    {"UCX_POSIX_ERROR_HANDLING", "y"},
    {"UCX_SYSV_ERROR_HANDLING", "y"},
    // Peers of one host read each other's memory, in place of sending 8 KiB at a time. Whoever
    // fetches late reads old bytes, which its closed link lets nobody see, and nobody writes.
    {"UCX_CMA_MEMORY_INVALIDATE", "y"},
    {"UCX_RNDV_SCHEME", "get_zcopy"},
    // Without this, UCX 1.13.1 may abort the owner over TCP when a reader of it dies.
    {"UCX_ZCOPY_THRESH", "inf"},
    // Three times as fast over TCP as with the default.
    {"UCX_TCP_TX_SEG_SIZE", "256k"},
    {"UCX_TCP_RX_SEG_SIZE", "512k"},
}};

struct Loaded {
  const MessageLibrary* library = nullptr;
  std::string why;  // there is none
};

Loaded load() {
  for (const auto& [name, value] : kSettings) setenv(name, value, /*overwrite=*/0);
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string beside = self.parent_path() / "libtributary_ucx.so";
  // Benchmarks and tests lie elsewhere, and know the path of libraries.
  const bool is_beside = std::filesystem::exists(beside);
  void* library = dlopen(is_beside ? beside.c_str() : "libtributary_ucx.so", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {nullptr, dlerror()};
  using Give = const MessageLibrary* (*)();
  const auto give = reinterpret_cast<Give>(dlsym(library, "tributary_ucx"));
  return {give == nullptr ? nullptr : give(), give == nullptr ? "it lacks its table" : ""};
}

}  // namespace

Result<const MessageLibrary*> load_message_library() {
  static const Loaded loaded = load();
  if (loaded.library != nullptr) return loaded.library;
  return Refusal{"ucx", str("memory: this build has no UCX: ", loaded.why,
                            "; install libucx-dev, and build again")};
}

}  // namespace tributary::memory
