#pragma once

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "memory/transport/choose_engine.h"

namespace tributary::memory {

/// The engines whose links are sockets, as far as they are built. That of CUDA devices always is:
/// its device here is memory of the host.
[[nodiscard]] inline std::vector<Engine> socket_engines() {
  std::vector<Engine> engines = {Engine::kTcp, Engine::kMemfd, Engine::kCudaMap};
  if (TRIB_HAS_UCX) engines.push_back(Engine::kUcx);
  return engines;
}

/// Names the cases of a test that runs with each engine.
[[nodiscard]] inline std::string engine_of_case(const testing::TestParamInfo<Engine>& engine) {
  return std::string(name_of(engine.param));
}

}  // namespace tributary::memory
