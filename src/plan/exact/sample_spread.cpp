#include "plan/exact/sample_spread.h"

#include <algorithm>

namespace tributary::plan {
namespace {

/// Whether some samples have a medium, and others have not.
bool is_of_some(const PlanningProblem& problem, Media media) {
  const bool first_has = problem.batches.front().front().units(media) > 0;
  return std::ranges::any_of(problem.batches, [&](const std::vector<SampleSize>& batch) {
    return std::ranges::any_of(
        batch, [&](const SampleSize& sample) { return (sample.units(media) > 0) != first_has; });
  });
}

}  // namespace

SampleSpread::SampleSpread(const PlanningProblem& problem) {
  const MicrobatchShape mean = mean_batch(problem);
  const auto against_mean = [&](const auto& size, double batch) {
    std::int64_t most = 0;
    for (const std::vector<SampleSize>& samples : problem.batches)
      for (const SampleSize& sample : samples) most = std::max(most, size(sample));
    return static_cast<double>(most) * static_cast<double>(problem.global_samples()) /
           std::max(1.0, batch);
  };
  const double longest = std::max(
      1.0, against_mean([](const auto& sample) { return sample.tokens; }, mean.backbone.tokens));
  largest = std::max(longest, against_mean([](const auto& sample) { return sample.encoded(); },
                                           mean.encoder.tokens + mean.audio.tokens));
  for (const Media media : kAllMedia) {
    const auto units = [media](const auto& sample) { return sample.units(media); };
    largest_of[static_cast<std::size_t>(media)] =
        std::max(longest, against_mean(units, mean.of(media).tokens));
    if (is_of_some(problem, media)) idle.push_back(media);
  }
}

std::vector<SampleSize> largest_samples(const std::vector<SampleSize>& batch) {
  std::vector<SampleSize> largest = {*std::ranges::max_element(batch, {}, &SampleSize::tokens)};
  for (const Media media : kAllMedia) {
    const auto units = [media](const SampleSize& sample) { return sample.units(media); };
    const auto most = std::ranges::max_element(batch, {}, units);
    if (most->units(media) > 0) largest.push_back(*most);
  }
  return largest;
}

}  // namespace tributary::plan
