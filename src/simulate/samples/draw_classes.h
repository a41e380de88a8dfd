#pragma once

#include <cstdint>
#include <vector>

#include "config/study/study.h"
#include "core/random.h"
#include "simulate/samples/deal_samples.h"

namespace tributary::simulate {

/// A number drawn as `draw` says.
///
/// source: inverse transforms; the normal one is RandomStream's
[[nodiscard]] double draw_number(const config::Draw& draw, RandomStream& random);

/// Draws samples of the classes by their weights, or of the reference mixture, with sound as said,
/// where there are none.
///
/// shape:  `count` samples; the same for the same seed and step, each with a token at least
[[nodiscard]] std::vector<SampleSize> draw_samples(const config::StudyData& data,
                                                   MixtureSound sound, std::uint64_t seed,
                                                   std::uint64_t step, std::int64_t count);

}  // namespace tributary::simulate
