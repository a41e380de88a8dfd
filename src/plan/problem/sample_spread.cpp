#include "plan/problem/sample_spread.h"

#include <algorithm>

namespace tributary::plan {
namespace {

/// Whether some samples have a medium while others have none.
bool is_of_some(const PlanningProblem& problem, cost::Media media) {
  const bool first_has = problem.batches.front().front().units(media) > 0;
  return std::ranges::any_of(problem.batches, [&](const std::vector<simulate::SampleSize>& batch) {
    return std::ranges::any_of(batch, [&](const simulate::SampleSize& sample) {
      return (sample.units(media) > 0) != first_has;
    });
  });
}

}  // namespace

SampleSpread::SampleSpread(const PlanningProblem& problem) {
  const cost::MicrobatchShape mean = mean_batch(problem);
  const auto against_mean = [&](const auto& size, double batch) {
    std::int64_t most = 0;
    for (const std::vector<simulate::SampleSize>& samples : problem.batches)
      for (const simulate::SampleSize& sample : samples) most = std::max(most, size(sample));
    return static_cast<double>(most) * static_cast<double>(problem.global_samples()) /
           std::max(1.0, batch);
  };
  const double longest = std::max(
      1.0, against_mean([](const auto& sample) { return sample.tokens; }, mean.backbone.tokens));
  largest = std::max(longest, against_mean([](const auto& sample) { return sample.encoded(); },
                                           mean.encoder.tokens + mean.audio.tokens));
  for (const cost::Media media : cost::kAllMedia) {
    const auto units = [media](const auto& sample) { return sample.units(media); };
    largest_of[static_cast<std::size_t>(media)] =
        std::max(longest, against_mean(units, mean.of(media).tokens));
    if (is_of_some(problem, media)) idle.push_back(media);
  }
}

std::vector<simulate::SampleSize> largest_samples(const std::vector<simulate::SampleSize>& batch) {
  std::vector<simulate::SampleSize> largest = {
      *std::ranges::max_element(batch, {}, &simulate::SampleSize::tokens)};
  for (const cost::Media media : cost::kAllMedia) {
    const auto units = [media](const simulate::SampleSize& sample) { return sample.units(media); };
    const auto most = std::ranges::max_element(batch, {}, units);
    if (most->units(media) > 0) largest.push_back(*most);
  }
  return largest;
}

}  // namespace tributary::plan
