#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <sys/types.h>

#include "core/handle.h"
#include "core/result.h"

namespace tributary::memory {

/// Opens a directory that no other user may open, and no link stands for; makes it where it is
/// missing. Locked until the descriptor is closed, for which it waits.
///
/// errors: Fault::kInput when it is none, belongs to another user or is open to others;
///         Fault::kResource when it cannot be made
[[nodiscard]] Descriptor lock_private_directory(const std::string& directory);

/// Listens at `directory/name`, and never blocks. Makes the directory, which no other user may
/// open, and removes from it each socket on which nobody listens any more: a killed process leaves
/// one.
///
/// errors: Fault::kInput when the directory is none, belongs to another user or is open to others,
///         and when the name has 80 bytes or more; Fault::kResource when it cannot be made, or
///         somebody else listens there
[[nodiscard]] Descriptor listen_in_private_directory(const std::string& directory,
                                                     const std::string& name);
/// Refused (`connect`) when nobody listens there.
[[nodiscard]] Result<Descriptor> connect_to_path(const std::string& path);

[[nodiscard]] bool is_unix_socket(int socket);
/// The user that runs the process at the other end, as the kernel knows it.
[[nodiscard]] Result<uid_t> user_at_other_end(int socket);

/// Sends bytes with a descriptor beside them. Returns what sendmsg returns.
[[nodiscard]] ssize_t send_with_descriptor(int socket, std::span<const std::byte> bytes,
                                           int descriptor);
struct Received {
  ssize_t count = 0;  // as recvmsg returns it
  Descriptor descriptor;
};
/// Receives bytes, and the descriptor that came beside them; closes any further ones.
[[nodiscard]] Received receive_with_descriptor(int socket, std::span<std::byte> into);

}  // namespace tributary::memory
