#include "ops/cpu/row_kernels.h"

#include <cmath>
#include <cstring>

// One version for AVX2 with FMA and one for any CPU; the loader picks. Sanitizers cannot start
// before that choice, so their builds take the plain one.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TRIB_FOR_THIS_CPU __attribute__((target_clones("arch=haswell", "default")))
#else
#define TRIB_FOR_THIS_CPU
#endif
#define TRIB_INLINE __attribute__((always_inline)) inline

namespace tributary::ops::cpu {
namespace {

/// e^x of an x that is at most 0, to 2 units in the last place: 2^n times a polynomial on
/// [-ln 2 / 2, ln 2 / 2]; 0 below the smallest normal number.
TRIB_INLINE float exponential(float x) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves a whole number
  const float whole = (x * 1.44269504F + kRound) - kRound;
  const float rest = (x - whole * 0.693359375F) + whole * 2.12194440e-4F;
  float sum = 1.0F / 720;
  sum = sum * rest + 1.0F / 120;
  sum = sum * rest + 1.0F / 24;
  sum = sum * rest + 1.0F / 6;
  sum = sum * rest + 0.5F;
  sum = sum * rest + 1.0F;
  sum = sum * rest + 1.0F;
  // No branch and no std::bit_cast: g++ 12 makes vectors of neither.
  const std::int32_t biased = static_cast<std::int32_t>(whole) + 127;
  const std::int32_t bits = (biased & ~(biased >> 31)) << 23;
  float power = 0;
  std::memcpy(&power, &bits, sizeof power);
  return sum * power;
}

/// 1 / (1 + e^-x)
TRIB_INLINE float sigmoid(float x) {
  const float small = exponential(-std::fabs(x));
  return (x < 0 ? small : 1.0F) / (1.0F + small);
}

}  // namespace

TRIB_FOR_THIS_CPU
void rms_norm(RowRange rows, std::int64_t width, const float* x, const float* weight,
              double epsilon, float* result, float* inverse_rms) {
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const float* in = x + row * width;
    float* out = result + row * width;
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < width; ++i) squares += in[i] * in[i];
    const double mean = static_cast<double>(squares) / static_cast<double>(width);
    const auto scale = static_cast<float>(1.0 / std::sqrt(mean + epsilon));
    inverse_rms[row] = scale;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) out[i] = in[i] * scale * weight[i];
  }
}

TRIB_FOR_THIS_CPU
void rms_norm_backward(RowRange rows, std::int64_t width, const float* gradient, const float* x,
                       const float* weight, const float* inverse_rms, float* x_gradient,
                       float* weight_gradient) {
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const float* given = gradient + row * width;
    const float* in = x + row * width;
    float* out = x_gradient + row * width;
    const float scale = inverse_rms[row];
    float along = 0;
#pragma omp simd reduction(+ : along)
    for (std::int64_t i = 0; i < width; ++i) {
      along += given[i] * weight[i] * in[i];
      weight_gradient[i] += given[i] * in[i] * scale;
    }
    const float share = along * scale * scale / static_cast<float>(width);
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i)
      out[i] = (given[i] * weight[i] - in[i] * share) * scale;
  }
}

TRIB_FOR_THIS_CPU
void rotate_heads(RowRange tokens, HeadShape shape, float direction, const float* heads,
                  const float* cosine, const float* sine, float* result) {
  const std::int64_t half = shape.half;
  const std::int64_t token_width = shape.heads * 2 * half;
  for (std::int64_t token = tokens.first; token < tokens.last; ++token) {
    const float* cosines = cosine + token * half;
    const float* sines = sine + token * half;
    for (std::int64_t head = 0; head < shape.rotated; ++head) {
      const float* in = heads + token * token_width + head * 2 * half;
      float* out = result + token * token_width + head * 2 * half;
#pragma omp simd
      for (std::int64_t i = 0; i < half; ++i) {
        const float turn = direction * sines[i];
        out[i] = in[i] * cosines[i] - in[i + half] * turn;
        out[i + half] = in[i + half] * cosines[i] + in[i] * turn;
      }
    }
    const std::int64_t done = token * token_width + shape.rotated * 2 * half;
    std::memcpy(result + done, heads + done,
                static_cast<std::size_t>((shape.heads - shape.rotated) * 2 * half) * sizeof(float));
  }
}

TRIB_FOR_THIS_CPU
void swiglu(RowRange rows, std::int64_t width, const float* gate_up, float* result) {
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const float* gate = gate_up + row * 2 * width;
    const float* up = gate + width;
    float* out = result + row * width;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) out[i] = gate[i] * sigmoid(gate[i]) * up[i];
  }
}

TRIB_FOR_THIS_CPU
void swiglu_backward(RowRange rows, std::int64_t width, const float* gradient, const float* gate_up,
                     float* result) {
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const float* given = gradient + row * width;
    const float* gate = gate_up + row * 2 * width;
    const float* up = gate + width;
    float* out = result + row * 2 * width;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) {
      const float open = sigmoid(gate[i]);
      const float silu = gate[i] * open;
      out[i] = given[i] * up[i] * (open + silu * (1.0F - open));
      out[i + width] = given[i] * silu;
    }
  }
}

}  // namespace tributary::ops::cpu
