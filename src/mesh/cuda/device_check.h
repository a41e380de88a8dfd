#pragma once

namespace tributary::mesh {

/// Runs a small kernel of this build on device `index` and compares its sum with the host's.
/// stream: the default one; the host waits
[[nodiscard]] bool check_device(int index);

}  // namespace tributary::mesh
