#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/random.h"
#include "model/model.h"

namespace tributary::model {
namespace {

/// Numbers of one chunk come from one stream, so the values depend on no thread count.
constexpr std::int64_t kChunk = 4096;

void fill_normal(const parallel::Parameter& parameter, std::uint64_t seed, at::Tensor& values) {
  float* data = values.mutable_data_ptr<float>();
  const std::int64_t elements = values.numel();
  const std::int64_t chunks = (elements + kChunk - 1) / kChunk;
  at::parallel_for(0, chunks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t chunk = first; chunk < last; ++chunk) {
      RandomStream stream(seed, parameter.name, static_cast<std::uint64_t>(chunk));
      const std::int64_t end = std::min(elements, (chunk + 1) * kChunk);
      for (std::int64_t i = chunk * kChunk; i < end; ++i)
        data[i] = static_cast<float>(parameter.initializer.deviation * stream.normal());
    }
  });
}

}  // namespace

void initialize(Model& model, std::uint64_t seed) {
  using Kind = parallel::Initializer::Kind;
  const at::NoGradGuard no_grad;
  for (const auto& unit : model.units()) {
    for (const auto& parameter : unit->parameters()) {
      switch (parameter->initializer.kind) {
        case Kind::kZeros:
          parameter->value.zero_();
          break;
        case Kind::kOnes:
          parameter->value.fill_(1);
          break;
        case Kind::kNormal: {
          at::Tensor values = at::empty(parameter->shape, at::kFloat);
          fill_normal(*parameter, seed, values);
          parameter->value.copy_(values);
          break;
        }
      }
    }
  }
}

}  // namespace tributary::model
