#include "train/profile/measure_layers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>

#include "core/error.h"
#include "core/text.h"
#include "parallel/unit_chain.h"
#include "train/profile/length_packs.h"
#include "train/profile/measure_passes.h"
#include "train/profile/profile_ledger.h"

namespace tributary::train {
namespace {

constexpr std::size_t kMaxMicrobatches = 3;  // of one size
// Of the capacity: the grid. The largest comes first, since it has layers of all kinds.
constexpr std::array<std::int64_t, 5> kEighths{8, 1, 2, 4, 6};
constexpr int kAttentionRounds = 5;

Tokens capacity_at(const config::RunConfig& config, std::int64_t eighths) {
  return {config.batch.capacity_tokens.count * eighths / 8};
}

std::vector<Crowd> lacking_pass(const config::Profile& profile, const LayerJob& job,
                                const LayerCut& cut, Tokens capacity) {
  std::vector<Crowd> crowds;
  for (const Crowd& each : cut.crowds)
    if (!has_pass(
            profile,
            {.ranks = each.ranks, .tp = cut.tp, .threads = job.threads, .capacity = capacity}))
      crowds.push_back(each);
  return crowds;
}

/// The key of a table, without a layer.
config::ProfileTable key_of(const LayerJob& job, const LayerCut& cut, const Crowd& crowd) {
  return {.module = "",
          .layer = "",
          .dtype = job.config.model.dtype,
          .tp = cut.tp,
          .ranks = crowd.ranks,
          .threads = job.threads};
}

std::vector<Crowd> lacking_attention(const config::Profile& profile, const LayerJob& job,
                                     const LayerCut& cut) {
  std::vector<Crowd> crowds;
  for (const Crowd& each : cut.crowds)
    if (!has_attention(profile, key_of(job, cut, each))) crowds.push_back(each);
  return crowds;
}

/// Checks that all ranks drew the same samples: times are means over ranks.
void require_same(const mesh::Group& world, const std::vector<data::EncodedSample>& samples) {
  std::int64_t size = 0;
  for (const data::EncodedSample& sample : samples)
    size = 31 * size % 1'000'003 + std::ssize(sample.tokens) + std::ssize(sample.items);
  const std::vector<std::int64_t> largest = world.largest({size, -size});
  TRIB_CHECK(largest[0] == -largest[1], .what = "train: ranks measure with other samples");
}

/// Takes batches as fast as a run that trains on their tokens, so that reading and decoding
/// disturbs the measurement as much as it disturbs a run.
class LoaderPace {
 public:
  explicit LoaderPace(data::Loader& loader) : loader_(loader) {}
  void use(Tokens tokens) {
    owed_ += tokens.count;
    while (owed_ > 0)
      for (const data::EncodedSample& sample : loader_.next_batch())
        owed_ -= std::ssize(sample.tokens);
  }

 private:
  data::Loader& loader_;
  std::int64_t owed_ = 0;
};

/// The measurements of one cut, in the order in which they run.
class LayerMeasurements {
 public:
  LayerMeasurements(const LayerJob& job, const LayerCut& cut, model::Model& model,
                    data::Loader& loader, config::Profile& profile)
      : job_(job), cut_(cut), model_(model), pace_(loader), profile_(profile) {}

  /// Returns whether to go on.
  [[nodiscard]] bool measure_lengths(const std::vector<data::EncodedSample>& samples) {
    const std::vector<Crowd> crowds = lacking_attention(profile_, job_, cut_);
    if (crowds.empty()) return true;
    const Tokens capacity = job_.config.batch.capacity_tokens;
    std::vector<SamplePack> packs = make_text_packs(job_.model, capacity);
    for (SamplePack& pack : make_item_packs(job_.model, capacity, samples))
      packs.push_back(std::move(pack));
    for (const SamplePack& pack : packs) {
      if (!job_.goes_on()) return false;
      ProfileBatch batch{.capacity = capacity, .microbatches = {{}}};
      for (const data::EncodedSample& sample : pack) batch.microbatches.front().push_back(&sample);
      PassOptions options = options_for(crowds);
      options.rounds = kAttentionRounds;
      const auto points = measure_attention(model_, job_.config, batch, job_.world, options);
      for (std::size_t i = 0; i < crowds.size(); ++i)
        for (const auto& [key, point] : points[i])
          if (!cut_.whole.contains(key.module))
            lengths_.push_back({table_of(crowds[i], key), point});
    }
    job_.out << "attention at " << packs.size() << " lengths, tp " << cut_.tp << ", "
             << job_.threads << " threads: measured" << std::endl;
    return true;
  }

  void measure_size(const std::vector<data::EncodedSample>& samples, Tokens capacity) {
    const std::vector<Crowd> crowds = lacking_pass(profile_, job_, cut_, capacity);
    const ProfileBatch batch = fill_microbatches(samples, capacity, kMaxMicrobatches);
    if (crowds.empty() || batch.microbatches.empty()) return;  // every sample is longer
    const std::vector<PassMeasurement> measured =
        measure_passes(model_, job_.config, batch, job_.world, options_for(crowds));
    for (std::size_t i = 0; i < crowds.size(); ++i) add(crowds[i], measured[i]);
  }

 private:
  [[nodiscard]] PassOptions options_for(const std::vector<Crowd>& crowds) {
    return {.crowds = crowds, .before_round = [this](const Crowd& crowd, Tokens tokens) {
              job_.bind(crowd);
              pace_.use(tokens);
            }};
  }

  [[nodiscard]] config::ProfileTable table_of(const Crowd& crowd, const LayerKey& key) const {
    config::ProfileTable table = key_of(job_, cut_, crowd);
    table.module = key.module;
    table.layer = key.layer;
    return table;
  }

  void add(const Crowd& crowd, const PassMeasurement& measured) {
    for (const auto& [key, point] : measured.points) {
      if (cut_.whole.contains(key.module)) continue;
      config::ProfileTable like = table_of(crowd, key);
      like.sequence_tokens = std::llround(measured.sequence_tokens);
      const auto parameters = measured.parameters.find(key);
      if (parameters != measured.parameters.end()) {
        like.parameters = parameters->second.all;
        like.adapters = parameters->second.adapters;
      }
      add_point(profile_, like, point);
    }
    for (const auto& [key, point] : measured.attention)
      TRIB_CHECK(
          cut_.whole.contains(key.module) || add_attention(profile_, table_of(crowd, key), point),
          .what = "train: attention without a layer");
    std::erase_if(lengths_, [&](const auto& length) {
      return add_attention(profile_, length.first, length.second);
    });
    config::MeasuredPass whole = measured.whole;
    whole.tp = cut_.tp;
    whole.threads = job_.threads;
    profile_.passes.push_back(whole);
    job_.write();
    job_.out << describe(whole) << std::endl;
  }

  const LayerJob& job_;
  const LayerCut& cut_;
  model::Model& model_;
  LoaderPace pace_;
  config::Profile& profile_;
  // Wait for the points of their tables.
  std::vector<std::pair<config::ProfileTable, config::MeasuredAttention>> lengths_;
};

}  // namespace

bool lacks_layers(const config::Profile& profile, const LayerJob& job, const LayerCut& cut) {
  if (cut.crowds.empty()) return false;
  if (!lacking_attention(profile, job, cut).empty()) return true;
  return std::ranges::any_of(kEighths, [&](std::int64_t eighths) {
    return !lacking_pass(profile, job, cut, capacity_at(job.config, eighths)).empty();
  });
}

std::vector<data::EncodedSample> draw_samples(const Session& session) {
  constexpr int kMaxBatches = 64;
  std::vector<data::EncodedSample> samples;
  const std::int64_t wanted =
      session.config.batch.capacity_tokens.count * static_cast<std::int64_t>(kMaxMicrobatches + 1);
  std::int64_t tokens = 0;
  for (int i = 0; i < kMaxBatches && tokens < wanted; ++i) {
    for (data::EncodedSample& sample : session.loader->next_batch()) {
      tokens += std::ssize(sample.tokens);
      samples.push_back(std::move(sample));
    }
  }
  return samples;
}

void measure_layers(const LayerJob& job, const LayerCut& cut, model::ModelLayout layouts,
                    const Session& session, const std::vector<data::EncodedSample>& samples,
                    config::Profile& profile) {
  if (!lacks_layers(profile, job, cut)) return;
  require_same(job.world, samples);
  std::shared_ptr<parallel::UnitChain>& chain = layouts.backbone.chain;
  if (!chain) chain = std::make_shared<parallel::UnitChain>(parallel::ChainOptions{});
  for (auto& [module, layout] : layouts.encoders) layout.chain = chain;
  const auto model = build_model(job.config, job.model, layouts, session.device);
  LayerMeasurements measurements(job, cut, *model, *session.loader, profile);
  if (!measurements.measure_lengths(samples)) return;
  for (const std::int64_t eighths : kEighths) {
    if (!job.goes_on()) return;
    measurements.measure_size(samples, capacity_at(job.config, eighths));
  }
}

}  // namespace tributary::train
