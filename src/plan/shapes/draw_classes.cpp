#include "plan/shapes/draw_classes.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"

namespace tributary::plan {
namespace {

std::int64_t whole(double value) { return std::max<std::int64_t>(0, std::llround(value)); }

SampleSize draw_sample(const config::SampleClass& of, std::int64_t most_tokens,
                       RandomStream& random) {
  const auto items = static_cast<std::int64_t>(std::floor(draw_number(of.items, random)));
  SampleSize size{.tokens = whole(draw_number(of.text, random))};
  for (std::int64_t item = 0; item < items; ++item) {
    const std::int64_t patches = whole(draw_number(of.patches, random));
    const std::int64_t tokens = whole(static_cast<double>(patches) / of.patches_per_token);
    // An item that does not fit whole is left out, with all after it.
    if (most_tokens > 0 && size.tokens + tokens > most_tokens) break;
    size.patches += patches;
    size.tokens += tokens;
    ++size.items;
  }
  if (most_tokens > 0) size.tokens = std::min(size.tokens, most_tokens);
  size.tokens = std::max<std::int64_t>(size.tokens, 1);
  if (size.patches == 0) size.items = 0;
  return size;
}

}  // namespace

double draw_number(const config::Draw& draw, RandomStream& random) {
  switch (draw.kind) {
    case config::DrawKind::kConstant:
      return draw.first;
    case config::DrawKind::kUniform:
      return draw.first + (draw.second - draw.first) * random.uniform();
    case config::DrawKind::kLogUniform:
      return draw.first * std::pow(draw.second / draw.first, random.uniform());
    case config::DrawKind::kLogNormal:
      return draw.first * std::exp(draw.second * random.normal());
    case config::DrawKind::kExponential:
      return draw.first - draw.second * std::log(1 - random.uniform());
  }
  return 0;
}

std::vector<SampleSize> draw_samples(const config::StudyData& data, std::uint64_t seed,
                                     std::uint64_t step, std::int64_t count) {
  if (data.classes.empty()) return draw_mixture(seed, step, count);
  double weights = 0;
  for (const config::SampleClass& each : data.classes) weights += each.weight;
  std::vector<SampleSize> samples;
  for (std::int64_t i = 0; i < count; ++i) {
    RandomStream random(seed, "study", step, static_cast<std::uint64_t>(i));
    double place = weights * random.uniform();
    std::size_t chosen = 0;
    while (chosen + 1 < data.classes.size() && place >= data.classes[chosen].weight)
      place -= data.classes[chosen++].weight;
    samples.push_back(draw_sample(data.classes[chosen], data.most_tokens, random));
  }
  return samples;
}

}  // namespace tributary::plan
