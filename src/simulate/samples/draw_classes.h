#pragma once

#include <cstdint>
#include <vector>

#include "config/study/study.h"
#include "core/random.h"
#include "simulate/samples/deal_samples.h"

namespace tributary::simulate {

/// A random number with the distribution `draw`.
///
/// source: inverse transforms; normal ones come from RandomStream
[[nodiscard]] double draw_number(const config::Draw& draw, RandomStream& random);

/// Draws samples of the classes by their weights; if there are none, of the reference mixture with
/// `sound`.
///
/// shape:  `count` samples of at least one token; the same for the same seed and step
[[nodiscard]] std::vector<SampleSize> draw_samples(const config::StudyData& data,
                                                   MixtureSound sound, std::uint64_t seed,
                                                   std::uint64_t step, std::int64_t count);

}  // namespace tributary::simulate
