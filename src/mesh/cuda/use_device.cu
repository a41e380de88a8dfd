#include <cuda_runtime.h>

#include "mesh/device.h"

namespace tributary::mesh {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 64;

__global__ void add_thread_ids(unsigned long long* sum) {
  atomicAdd(sum, static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x);
}

}  // namespace

bool use_device(int index) {
  unsigned long long* sum = nullptr;
  unsigned long long result = 0;
  bool runs = cudaSetDevice(index) == cudaSuccess && cudaMalloc(&sum, sizeof *sum) == cudaSuccess &&
              cudaMemset(sum, 0, sizeof *sum) == cudaSuccess;
  if (runs) {
    add_thread_ids<<<kBlocks, kThreads>>>(sum);
    runs = cudaGetLastError() == cudaSuccess &&
           cudaMemcpy(&result, sum, sizeof result, cudaMemcpyDeviceToHost) == cudaSuccess;
  }
  cudaFree(sum);
  constexpr unsigned long long kCount = static_cast<unsigned long long>(kThreads) * kBlocks;
  return runs && result == kCount * (kCount - 1) / 2;
}

}  // namespace tributary::mesh
