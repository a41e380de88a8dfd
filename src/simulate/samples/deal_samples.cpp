#include "simulate/samples/deal_samples.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/random.h"
#include "cost/stages/place_layers.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::simulate {
namespace {

constexpr std::int64_t kTilePatches = 729;
constexpr std::int64_t kPositionsPerSecond = 50;  // of sound, after the convolutions
constexpr std::int64_t kPositionsPerToken = 2;

double between(RandomStream& random, double low, double high) {
  return low + (high - low) * random.uniform();
}
std::int64_t whole(double value) { return static_cast<std::int64_t>(std::floor(value)); }

struct DrawnSample {
  SampleSize size;
  bool is_video = false;
};

DrawnSample draw_sample(RandomStream& random) {
  const std::int64_t text = whole(std::exp(between(random, std::log(40.0), std::log(500.0))));
  const std::uint64_t kind = random.below(46 + 19 + 60 + 60);
  std::int64_t tiles = 0;
  double tokens = 0;
  bool is_video = false;
  if (kind < 46) {
    tiles = 5;
    tokens = 729 + 2187 * between(random, 0.7, 1.33);
  } else if (kind < 46 + 19) {
    const std::int64_t grid = random.between(6, 25);
    tiles = grid + 1;
    tokens =
        729 + static_cast<double>(std::min<std::int64_t>(9, grid)) * 729 * between(random, 0.75, 1);
  } else if (kind < 46 + 19 + 60) {
    tiles = std::min<std::int64_t>(16, 2 + whole(-2.2 * std::log(1 - random.uniform())));
    tokens = 730 * static_cast<double>(tiles);
  } else {
    tiles = random.between(4, 31);
    tokens = 210 * static_cast<double>(tiles);
    is_video = true;
  }
  return {{.tokens = whole(tokens) + text, .patches = tiles * kTilePatches, .items = tiles},
          is_video};
}

/// Adds sound to a sample.
SampleSize add_sound(const DrawnSample& drawn, RandomStream& random) {
  SampleSize size = drawn.size;
  const double seconds = drawn.is_video ? static_cast<double>(size.items)
                         : random.below(4) == 0
                             ? std::exp(between(random, std::log(2.0), std::log(30.0)))
                             : 0;
  size.frames = whole(seconds * kPositionsPerSecond);
  size.clips = size.frames > 0 ? 1 : 0;
  size.tokens += size.frames / kPositionsPerToken;
  return size;
}

void add_media(cost::PassShape& to, std::int64_t size, std::int64_t items) {
  if (items == 0) return;
  const auto patches = static_cast<double>(size);
  to.tokens += patches;
  to.squared_tokens += patches * patches / static_cast<double>(items);
  to.sequences += items;
}

}  // namespace

MixtureSound mixture_sound(const config::ModuleGraph& model) {
  return cost::has_both_media(model) ? MixtureSound::kBesidePictures : MixtureSound::kNone;
}

std::vector<SampleSize> draw_mixture(std::uint64_t seed, std::uint64_t step, std::int64_t count,
                                     MixtureSound sound, Tokens max) {
  constexpr int kMaxDraws = 1000;
  std::vector<SampleSize> samples;
  for (std::int64_t i = 0; i < count; ++i) {
    RandomStream random(seed, "mixture", step, static_cast<std::uint64_t>(i));
    RandomStream sounds(seed, "mixture sound", step, static_cast<std::uint64_t>(i));
    const auto draw_next = [&] {
      const DrawnSample drawn = draw_sample(random);
      return sound == MixtureSound::kNone ? drawn.size : add_sound(drawn, sounds);
    };
    SampleSize sample = draw_next();
    for (int draw = 1; max.count > 0 && sample.tokens > max.count; ++draw) {
      TRIB_REQUIRE(
          draw < kMaxDraws, .what = "simulate: samples of the mixture do not fit",
          .where = "batch.capacity_tokens", .found = str(max),
          .expected = "room for a photo, a document, pictures or a video: some 1000 tokens",
          .fix = "raise batch.capacity_tokens, or give sizes of your own");
      sample = draw_next();
    }
    samples.push_back(sample);
  }
  return samples;
}

SampleSize size_of(const SampleShape& shape) {
  SampleSize size{.tokens = shape.tokens.count};
  for (const Grid& image : shape.images) {
    size.patches += image.patches();
    ++size.items;
  }
  for (const Grid& video : shape.videos) {
    size.patches += video.patches();
    size.items += video.time;
  }
  for (const Grid& sound : shape.sounds) {
    size.frames += sound.patches() / kFramesOfPosition;
    ++size.clips;
  }
  return size;
}

RecordedSizes sizes_of(const config::ShapeHistogram& histogram) {
  RecordedSizes recorded;
  for (const config::ShapeBin& bin : histogram.bins) {
    recorded.sizes.push_back(size_of(bin.shape));
    recorded.times.push_back(bin.samples);
  }
  return recorded;
}

RecordedSizes sizes_for(const config::ModuleGraph& model, RecordedSizes recorded) {
  const bool only_hears =
      std::ranges::any_of(model.modules, cost::hears) && !cost::has_both_media(model);
  if (!only_hears) return recorded;
  for (SampleSize& size : recorded.sizes) {
    size.patches += std::exchange(size.frames, 0);
    size.items += std::exchange(size.clips, 0);
  }
  return recorded;
}

std::vector<SampleSize> draw_recorded(const RecordedSizes& recorded, std::uint64_t seed,
                                      std::uint64_t step, std::int64_t count) {
  TRIB_REQUIRE(!recorded.sizes.empty(), .what = "simulate: no sample sizes to draw from");
  TRIB_CHECK(recorded.times.empty() || recorded.times.size() == recorded.sizes.size(),
             .what = "simulate: times are not given for each size",
             .found = str(recorded.times.size()), .expected = str(recorded.sizes.size()));
  std::vector<std::uint64_t> until;  // [sizes] a draw below this takes the size or one before it
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < recorded.sizes.size(); ++i) {
    total += recorded.times.empty() ? 1 : static_cast<std::uint64_t>(recorded.times[i]);
    until.push_back(total);
  }
  std::vector<SampleSize> samples;
  for (std::int64_t i = 0; i < count; ++i) {
    RandomStream random(seed, "recorded", step, static_cast<std::uint64_t>(i));
    const auto drawn = std::upper_bound(until.begin(), until.end(), random.below(total));
    samples.push_back(recorded.sizes[drawn - until.begin()]);
  }
  return samples;
}

cost::MicrobatchShape empty_shape() {
  cost::MicrobatchShape shape;
  shape.backbone.sequences = shape.encoder.sequences = shape.audio.sequences = 0;
  return shape;
}

void add_sample(cost::MicrobatchShape& to, const SampleSize& sample) {
  const auto tokens = static_cast<double>(sample.tokens);
  to.backbone.tokens += tokens;
  to.backbone.squared_tokens += tokens * tokens;
  to.backbone.sequences += 1;
  for (const cost::Media media : cost::kAllMedia)
    add_media(to.of(media), sample.units(media), sample.items_of(media));
}

void deal_round(std::span<const SampleSize> samples, std::vector<int> members, cost::Media media,
                int round, std::vector<std::vector<cost::MicrobatchShape>>& replicas) {
  std::stable_sort(members.begin(), members.end(),
                   [&](int a, int b) { return samples[a].units(media) > samples[b].units(media); });
  for (const int member : members) {
    std::size_t min = 0;
    for (std::size_t replica = 1; replica < replicas.size(); ++replica)
      if (replicas[replica][round].of(media).tokens < replicas[min][round].of(media).tokens)
        min = replica;
    add_sample(replicas[min][round], samples[member]);
  }
}

void deal_passes(std::span<const SampleSize> samples, const std::vector<std::vector<int>>& rounds,
                 cost::Media media, const schedule::PipelineModule& module,
                 std::vector<std::vector<cost::MicrobatchShape>>& replicas) {
  const schedule::PassGroups groups(module.passes, std::ssize(rounds));
  using Load = std::tuple<std::int64_t, int, std::size_t>;  // media, samples, replica
  std::priority_queue<Load, std::vector<Load>, std::greater<>> min;
  for (std::size_t replica = 0; replica < replicas.size(); ++replica) min.push({0, 0, replica});
  using Member = std::pair<int, std::size_t>;  // sample, pass
  const auto deal = [&](std::vector<Member> members) {
    std::stable_sort(members.begin(), members.end(), [&](const Member& a, const Member& b) {
      return samples[a.first].units(media) > samples[b.first].units(media);
    });
    for (const auto& [sample, pass] : members) {
      const auto [load, count, replica] = min.top();
      min.pop();
      add_sample(replicas[replica][pass], samples[sample]);
      min.push({load + samples[sample].units(media), count + 1, replica});
    }
  };
  std::vector<Member> members;
  for (std::int64_t pass = 0; pass < groups.passes; ++pass) {
    for (std::int64_t round = groups.first_of(pass); round < groups.first_of(pass + 1); ++round)
      for (const int sample : rounds[round])
        members.emplace_back(sample, static_cast<std::size_t>(pass));
    if (module.takes_turns || pass + 1 == groups.passes) deal(std::exchange(members, {}));
  }
}

void gather_passes(const schedule::Pipeline& pipeline, StepShapes& shapes) {
  const auto add = [](cost::PassShape& to, const cost::PassShape& from) {
    to.tokens += from.tokens;
    to.squared_tokens += from.squared_tokens;
    to.sequences += from.sequences;
  };
  for (std::size_t module = 0; module < shapes.size(); ++module) {
    const schedule::PipelineModule& of = pipeline.modules[module];
    if (!of.is_colocated()) continue;
    for (std::vector<cost::MicrobatchShape>& own : shapes[module]) {
      const std::ptrdiff_t passes = std::min<std::ptrdiff_t>(of.passes, std::ssize(own));
      const bool is_gathered = std::all_of(own.begin() + passes, own.end(), [](const auto& each) {
        return each.encoder.tokens == 0 && each.audio.tokens == 0;
      });
      if (is_gathered) continue;
      std::vector<cost::MicrobatchShape> gathered(own.size(), empty_shape());
      for (std::ptrdiff_t i = 0; i < std::ssize(own); ++i) {
        cost::MicrobatchShape& pass = gathered[i * passes / std::ssize(own)];
        add(pass.backbone, own[i].backbone);
        add(pass.encoder, own[i].encoder);
        add(pass.audio, own[i].audio);
      }
      own = std::move(gathered);
    }
  }
}

StepShapes deal_samples(const schedule::Pipeline& pipeline, std::span<const cost::Media> media,
                        std::span<const SampleSize> samples, std::span<const std::int32_t> bucket) {
  const std::size_t backbone = schedule::backbone_of(pipeline);
  const int microbatches = pipeline.microbatches;
  const int replicas = pipeline.modules[backbone].replicas;
  StepShapes shapes;
  for (const schedule::PipelineModule& module : pipeline.modules) {
    const auto own = static_cast<std::size_t>(module.passes_of(microbatches));
    shapes.emplace_back(static_cast<std::size_t>(module.replicas),
                        std::vector<cost::MicrobatchShape>(own, empty_shape()));
  }
  std::vector<std::vector<int>> rounds(static_cast<std::size_t>(microbatches));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const int round = bucket[i] / replicas;
    add_sample(shapes[backbone][bucket[i] % replicas][round], samples[i]);
    rounds[round].push_back(static_cast<int>(i));
  }
  for (std::size_t module = 0; module < shapes.size(); ++module) {
    if (module == backbone) continue;
    if (pipeline.modules[module].is_colocated()) {
      deal_passes(samples, rounds, media[module], pipeline.modules[module], shapes[module]);
      continue;
    }
    for (int round = 0; round < microbatches; ++round)
      deal_round(samples, rounds[round], media[module], round, shapes[module]);
  }
  return shapes;
}

cost::MicrobatchShape shape_of(const SampleSize& sample) {
  cost::MicrobatchShape shape = empty_shape();
  add_sample(shape, sample);
  return shape;
}

bool deals_evenly(const schedule::Pipeline& pipeline, std::int64_t samples) {
  return std::all_of(pipeline.modules.begin(), pipeline.modules.end(), [&](const auto& module) {
    const int passes = module.passes_of(pipeline.microbatches);
    return samples % (std::int64_t{passes} * module.replicas) == 0 &&
           pipeline.microbatches % passes == 0;
  });
}

StepShapes equal_microbatches(const schedule::Pipeline& pipeline,
                              std::span<const cost::Media> media, const SampleSize& sample,
                              std::int64_t samples) {
  StepShapes shapes;
  for (std::size_t index = 0; index < pipeline.modules.size(); ++index) {
    const schedule::PipelineModule& module = pipeline.modules[index];
    if (module.is_colocated()) {
      const std::vector<SampleSize> own(static_cast<std::size_t>(samples / module.replicas),
                                        sample);
      shapes.push_back({std::vector<cost::MicrobatchShape>(
          static_cast<std::size_t>(pipeline.microbatches), empty_shape())});
      std::vector<std::vector<int>> rounds(static_cast<std::size_t>(pipeline.microbatches));
      for (std::size_t i = 0; i < own.size(); ++i)
        rounds[i * rounds.size() / own.size()].push_back(static_cast<int>(i));
      deal_passes(own, rounds, media[index], module, shapes.back());
      continue;
    }
    cost::MicrobatchShape shape = empty_shape();
    const std::int64_t each = samples / pipeline.microbatches / module.replicas;
    for (std::int64_t i = 0; i < each; ++i) add_sample(shape, sample);
    shapes.push_back({std::vector<cost::MicrobatchShape>(
        static_cast<std::size_t>(pipeline.microbatches), shape)});
  }
  return shapes;
}

StepShapes full_microbatches(const config::Plan& plan, const schedule::Pipeline& pipeline) {
  const auto tokens = static_cast<double>(plan.batch.capacity_tokens.count);
  cost::MicrobatchShape shape = empty_shape();
  shape.backbone = {.tokens = tokens, .squared_tokens = tokens * tokens, .sequences = 1};
  StepShapes shapes;
  for (const schedule::PipelineModule& module : pipeline.modules)
    shapes.emplace_back(
        static_cast<std::size_t>(module.replicas),
        std::vector<cost::MicrobatchShape>(static_cast<std::size_t>(pipeline.microbatches), shape));
  return shapes;
}

}  // namespace tributary::simulate
