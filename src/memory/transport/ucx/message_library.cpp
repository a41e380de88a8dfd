#include <array>
#include <cstdlib>
#include <utility>

#include "core/machine/own_library.h"
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

Result<void*> find_ucx() {
  for (const auto& [name, value] : kSettings) setenv(name, value, /*overwrite=*/0);
  return find_in_own_library("libtributary_ucx.so", "tributary_ucx");
}

}  // namespace

Result<const MessageLibrary*> load_message_library() {
  using Give = const MessageLibrary* (*)();
  static const Result<void*> give = find_ucx();
  if (give) return reinterpret_cast<Give>(give.value())();
  return Refusal{"ucx", str("memory: this build has no UCX: ", give.refusal().reason,
                            "; install libucx-dev, and build again")};
}

}  // namespace tributary::memory
