#pragma once

#include <span>
#include <utility>

#include <c10/core/Device.h>

#include "mesh/transport/group.h"

namespace tributary::mesh {

/// Lets pairs of a group for messages exchange a first one, in the order given, which is the same
/// on all ranks. NCCL connects a pair at its first message, and both wait for it: without this a
/// rank that first receives on one link would wait for one that first receives on another. Messages
/// of the host need no such meeting.
///
/// collective: over the group, on CUDA devices
void meet_pairs(const Group& group, std::span<const std::pair<int, int>> pairs, c10::Device device);

}  // namespace tributary::mesh
