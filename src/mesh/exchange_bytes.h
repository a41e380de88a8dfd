#pragma once

#include <string>
#include <vector>

#include "mesh/transport/group.h"

namespace tributary::mesh {

/// Sends each member of a group bytes of its own; any of them may be empty.
///
/// shape:      to_each [size] -> returns what each member has sent to this one [size]
/// collective: over the group, as the other collectives of the host
/// cost:       one round of lengths, then each byte once; a copy of what is sent and received
[[nodiscard]] std::vector<std::string> exchange_bytes(const Group& group,
                                                      const std::vector<std::string>& to_each);

}  // namespace tributary::mesh
