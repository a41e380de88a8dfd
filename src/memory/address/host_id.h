#pragma once

#include "memory/address/page_table.h"

namespace tributary::memory {

/// Names the host that this process can share memory and sockets with: SHA-256 over the boot id and
/// the inodes of the network and pid namespaces. Not the host's name: containers share names, and
/// hosts share images.
///
/// errors: Fault::kResource when /proc does not tell
[[nodiscard]] Digest read_host_id();

}  // namespace tributary::memory
