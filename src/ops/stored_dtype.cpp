#include "ops/stored_dtype.h"

#include <array>
#include <utility>

#include <ATen/ATen.h>

#include "core/error.h"

namespace tributary::ops {
namespace {

constexpr std::array<std::pair<StoredDtype, at::ScalarType>, 15> kPairs{{
    {StoredDtype::kBool, at::kBool},
    {StoredDtype::kUint8, at::kByte},
    {StoredDtype::kInt8, at::kChar},
    {StoredDtype::kFloat8E4m3, at::kFloat8_e4m3fn},
    {StoredDtype::kFloat8E5m2, at::kFloat8_e5m2},
    {StoredDtype::kInt16, at::kShort},
    {StoredDtype::kUint16, at::kUInt16},
    {StoredDtype::kFloat16, at::kHalf},
    {StoredDtype::kBfloat16, at::kBFloat16},
    {StoredDtype::kInt32, at::kInt},
    {StoredDtype::kUint32, at::kUInt32},
    {StoredDtype::kFloat32, at::kFloat},
    {StoredDtype::kInt64, at::kLong},
    {StoredDtype::kUint64, at::kUInt64},
    {StoredDtype::kFloat64, at::kDouble},
}};

}  // namespace

StoredDtype stored_dtype(at::ScalarType dtype) {
  for (const auto& [stored, scalar] : kPairs)
    if (scalar == dtype) return stored;
  TRIB_RAISE(Fault::kInput, .what = "ops: safetensors hold no such element type",
             .found = c10::toString(dtype));
}

at::ScalarType scalar_type(StoredDtype dtype) {
  for (const auto& [stored, scalar] : kPairs)
    if (stored == dtype) return scalar;
  TRIB_RAISE(Fault::kInput, .what = "ops: tensors hold no such element type",
             .found = std::string(stored_name(dtype)));
}

}  // namespace tributary::ops
