#pragma once

namespace tributary::memory {

/// What a stand-in for the CUDA driver has, beside the driver's functions: `libcuda.so.1` of this
/// folder. It has three devices of memory of the host; the last one has no peer.
struct DriverOfHost {
  int (*live)();                   // contexts, streams, pools, memory and addresses not given back
  void (*fail)(const char* call);  // the next call of this name; null: none
  void (*map_writable_only)(int is);  // it knows no read-only memory
};

}  // namespace tributary::memory
