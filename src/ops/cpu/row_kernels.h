#pragma once

#include <cstdint>

/// Loops over rows of contiguous f32 for CPUs, without torch: each reads its inputs once, where a
/// chain of tensor operations reads and writes memory for every step.
///
/// Each works on the rows [first, last), so that the caller may spread them over threads.
namespace tributary::ops::cpu {

struct RowRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// shape: x, result [rows, width]; weight [width]; inverse_rms [rows] is written
void rms_norm(RowRange rows, std::int64_t width, const float* x, const float* weight,
              double epsilon, float* result, float* inverse_rms);

/// shape: gradient, x, x_gradient [rows, width]; weight_gradient [width] is added to
void rms_norm_backward(RowRange rows, std::int64_t width, const float* gradient, const float* x,
                       const float* weight, const float* inverse_rms, float* x_gradient,
                       float* weight_gradient);

/// Sizes of the heads of a token.
struct HeadShape {
  std::int64_t heads = 0;    // of a token
  std::int64_t rotated = 0;  // the first ones of them
  std::int64_t half = 0;     // head_width / 2
};

/// shape: heads, result [tokens, heads, 2 * half]; cosine, sine [tokens, half]
/// units: direction 1 rotates forward, -1 back
void rotate_heads(RowRange tokens, HeadShape shape, float direction, const float* heads,
                  const float* cosine, const float* sine, float* result);

/// shape: gate_up [rows, 2 * width]; result [rows, width]
/// errors: 3e-7 relative against exact arithmetic; NaN where a gate is not finite
void swiglu(RowRange rows, std::int64_t width, const float* gate_up, float* result);

/// shape: gradient [rows, width]; gate_up, result [rows, 2 * width]
void swiglu_backward(RowRange rows, std::int64_t width, const float* gradient, const float* gate_up,
                     float* result);

}  // namespace tributary::ops::cpu
