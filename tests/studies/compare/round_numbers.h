#pragma once

#include "studies/compare/compare.h"

namespace tributary::studies {

/// Two methods and two settings with round numbers.
inline Comparison round_numbers() {
  const auto method = [](const char* name, double step_s, double mfu, double idle) {
    return MethodResult{
        .method = name, .plan = "p", .step_s = step_s, .mfu = mfu, .idle_share = idle};
  };
  Comparison comparison;
  comparison.settings = {
      {.name = "a",
       .devices = 4,
       .global_samples = 10,
       .methods = {method("x", 2, 0.4, 0.1), method("y", 4, 0.2, 0.4), method("z", 0, 0, 0)}},
      {.name = "b", .devices = 8, .global_samples = 40, .methods = {method("x", 4, 0.3, 0.2)}}};
  return comparison;
}

}  // namespace tributary::studies
