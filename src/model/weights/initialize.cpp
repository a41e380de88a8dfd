#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/random.h"
#include "model/model.h"
#include "ops/sinusoids.h"

namespace tributary::model {
namespace {

using parallel::Initializer;
using parallel::PlacedBox;

/// Elements of the whole parameter that draw from one random stream: so a value depends only on its
/// name and place, never on threads or on how the parameter is cut.
constexpr std::int64_t kChunk = 4096;

/// Consecutive elements of the whole parameter inside one chunk.
struct Piece {
  std::int64_t first = 0;  // in the whole parameter
  std::int64_t count = 0;
  std::int64_t place = 0;  // in the shard
};

std::vector<Piece> pieces_of(const parallel::Parameter& parameter,
                             const std::vector<PlacedBox>& boxes) {
  std::vector<Piece> pieces;
  const Box whole = whole_box(parameter.shape);
  for (const PlacedBox& placed : boxes) {
    for (const SharedRun& run : shared_runs(whole, placed.box)) {
      for (std::int64_t done = 0; done < run.elements;) {
        const std::int64_t first = run.from + done;
        const std::int64_t count = std::min(run.elements - done, kChunk - first % kChunk);
        pieces.push_back({first, count, placed.first + run.to + done});
        done += count;
      }
    }
  }
  return pieces;
}

/// Draws one value of a parameter.
double draw(const Initializer& initializer, RandomStream& stream) {
  if (initializer.kind == Initializer::Kind::kNormal)
    return initializer.deviation * stream.normal();
  return initializer.deviation * (2 * stream.uniform() - 1);
}

/// Fills `values`, the part of a shard that begins at its element `first_place`.
/// shape: values [elements] f32, on the CPU
void fill_random(const parallel::Parameter& parameter, const std::vector<PlacedBox>& boxes,
                 std::uint64_t seed, std::int64_t first_place, const at::Tensor& values) {
  float* data = values.mutable_data_ptr<float>() - first_place;
  const std::vector<Piece> pieces = pieces_of(parameter, boxes);
  at::parallel_for(
      0, static_cast<std::int64_t>(pieces.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const Piece& piece = pieces[static_cast<std::size_t>(i)];
          RandomStream stream(seed, parameter.name,
                              static_cast<std::uint64_t>(piece.first / kChunk));
          for (std::int64_t skipped = 0; skipped < piece.first % kChunk; ++skipped)
            (void)draw(parameter.initializer, stream);
          for (std::int64_t k = 0; k < piece.count; ++k)
            data[piece.place + k] = static_cast<float>(draw(parameter.initializer, stream));
        }
      });
}

/// Copies the boxes of a whole parameter to their places. shape: shard [elements]
void fill_boxes(const at::Tensor& whole, const std::vector<PlacedBox>& boxes,
                const at::Tensor& shard) {
  for (const auto& [box, first] : boxes) {
    at::Tensor part = whole;
    for (std::size_t i = 0; i < box.lengths.size(); ++i)
      part = part.narrow(static_cast<std::int64_t>(i), box.offsets[i], box.lengths[i]);
    shard.narrow(0, first, part.numel()).view(box.lengths).copy_(part);
  }
}

/// `drawn` is memory for random numbers, which grows as it must.
void fill_unit(parallel::Unit& unit, std::uint64_t seed, at::Tensor& drawn,
               const OnProgress& on_progress) {
  using Kind = Initializer::Kind;
  for (const auto& parameter : unit.parameters()) {
    const parallel::Range range = unit.range_of(*parameter);
    at::Tensor shard = unit.shard_value().narrow(0, range.first, range.count);
    switch (parameter->initializer.kind) {
      case Kind::kZeros:
        shard.zero_();
        break;
      case Kind::kOnes:
        shard.fill_(1);
        break;
      case Kind::kConstant:
        shard.fill_(parameter->initializer.deviation);
        break;
      case Kind::kSinusoids:
        shard.zero_();
        fill_boxes(ops::sinusoids(parameter->shape.at(0), parameter->shape.at(1)),
                   unit.boxes_of(*parameter), unit.shard_value());
        break;
      case Kind::kNormal:
      case Kind::kUniform: {
        if (drawn.numel() < range.count) drawn = at::empty({range.count}, at::kFloat);
        const at::Tensor values = drawn.narrow(0, 0, range.count);
        values.zero_();  // padding lies in no box
        fill_random(*parameter, unit.boxes_of(*parameter), seed, range.first, values);
        shard.copy_(values);
        break;
      }
    }
    if (on_progress) on_progress();
  }
  unit.discard();
}

}  // namespace

void initialize(Model& model, std::uint64_t seed, const OnProgress& on_progress) {
  const at::NoGradGuard no_grad;
  at::Tensor drawn = at::empty({0});  // one memory for all: fresh pages cost more than the numbers
  for (const auto& unit : model.units())
    if (!unit->is_adapter()) fill_unit(*unit, seed, drawn, on_progress);
  initialize_adapters(model, seed, on_progress);
}

void initialize_adapters(Model& model, std::uint64_t seed, const OnProgress& on_progress) {
  const at::NoGradGuard no_grad;
  at::Tensor drawn = at::empty({0});
  for (const auto& unit : model.units())
    if (unit->is_adapter()) fill_unit(*unit, seed, drawn, on_progress);
  for (const auto& unit : model.units()) {
    parallel::reset_magnitudes(*unit);
    if (on_progress && unit->has_adapter()) on_progress();
  }
}

}  // namespace tributary::model
