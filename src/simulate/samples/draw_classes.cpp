#include "simulate/samples/draw_classes.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"

namespace tributary::simulate {
namespace {

std::int64_t rounded(double value) { return std::max<std::int64_t>(0, std::llround(value)); }

/// How to draw an image or a clip.
struct ItemDraw {
  const config::Draw& units;
  double units_per_token;
};

/// The items drawn.
struct DrawnItems {
  std::int64_t items = 0;
  std::int64_t units = 0;
};

/// Stops before the first item whose rounded size does not fit.
DrawnItems draw_items(const ItemDraw& of, std::int64_t items, std::int64_t max_tokens,
                      std::int64_t& tokens, RandomStream& random) {
  DrawnItems drawn;
  while (drawn.items < items) {
    const std::int64_t units = rounded(draw_number(of.units, random));
    const std::int64_t own = rounded(static_cast<double>(units) / of.units_per_token);
    if (max_tokens > 0 && tokens + own > max_tokens) break;
    drawn.units += units;
    tokens += own;
    ++drawn.items;
  }
  if (drawn.units == 0) drawn.items = 0;
  return drawn;
}

SampleSize draw_sample(const config::SampleClass& of, std::int64_t max_tokens,
                       RandomStream& random) {
  const auto count = [&](const config::Draw& draw) {
    return static_cast<std::int64_t>(std::floor(draw_number(draw, random)));
  };
  const std::int64_t items = count(of.items);
  std::int64_t tokens = rounded(draw_number(of.text, random));
  const DrawnItems images =
      draw_items({of.patches, of.patches_per_token}, items, max_tokens, tokens, random);
  const DrawnItems clips =
      draw_items({of.frames, of.frames_per_token}, count(of.clips), max_tokens, tokens, random);
  if (max_tokens > 0) tokens = std::min(tokens, max_tokens);
  return {.tokens = std::max<std::int64_t>(tokens, 1),
          .patches = images.units,
          .items = images.items,
          .frames = clips.units,
          .clips = clips.items};
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

std::vector<SampleSize> draw_samples(const config::StudyData& data, MixtureSound sound,
                                     std::uint64_t seed, std::uint64_t step, std::int64_t count) {
  if (data.classes.empty()) return draw_mixture(seed, step, count, sound);
  double weights = 0;
  for (const config::SampleClass& each : data.classes) weights += each.weight;
  std::vector<SampleSize> samples;
  for (std::int64_t i = 0; i < count; ++i) {
    RandomStream random(seed, "study", step, static_cast<std::uint64_t>(i));
    double place = weights * random.uniform();
    std::size_t chosen = 0;
    while (chosen + 1 < data.classes.size() && place >= data.classes[chosen].weight)
      place -= data.classes[chosen++].weight;
    samples.push_back(draw_sample(data.classes[chosen], data.max_tokens, random));
  }
  return samples;
}

}  // namespace tributary::simulate
