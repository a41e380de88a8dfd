// Towers with meshes of their own, whose large pictures take longer than predicted: what is learned
// makes their seats level.

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/random.h"
#include "schedule/correct_costs/batch_correction.h"
#include "schedule/deal_media.h"

namespace tributary::schedule {
namespace {

constexpr std::int64_t kPictures = 60;
constexpr std::int64_t kRounds = 3;
constexpr std::int32_t kTower = 0;
constexpr double kSample = 0.002;  // [s] of the backbone on a sample
const CorrectionOptions kSoon{
    .warm_up_steps = 3, .discarded_steps = 1, .window_steps = 20, .rest_windows = 2};

std::int64_t predict(const Grid& picture) { return 1000 * picture.patches(); }

/// [s]; a large picture takes three times as long as predicted.
double take(const Grid& picture) {
  return 1e-7 * static_cast<double>(predict(picture)) * (picture.rows >= 12 ? 3 : 1);
}

/// One picture in each sample.
std::vector<SampleShape> draw_shapes(std::int64_t step) {
  RandomStream random(3, "pictures", static_cast<std::uint64_t>(step));
  std::vector<SampleShape> shapes(kPictures);
  for (SampleShape& shape : shapes) {
    const std::int64_t side = 4 * random.between(1, 3);
    shape.tokens = {40};
    shape.images = {{1, side, side}};
  }
  return shapes;
}

/// max / mean of the true times of seats.
struct Level {
  double dealt = 0;     // as the run dealt its pictures
  double by_truth = 0;  // as it would have by true times
};

/// A run of a backbone, and of a tower with seats of its own.
class TowerRun {
 public:
  explicit TowerRun(const MediaSeats& seats)
      : seats_(seats), correction_(2 * kPictures, kSoon, std::vector{kTower}) {}

  Level run_step(std::int64_t step) {
    const std::vector<SampleShape> shapes = draw_shapes(step);
    const auto known = correction_.known_for(step * kPictures);
    PredictedBatch batch = plan(shapes);
    const auto by_known = [&](const Grid& picture) {
      const PredictedShare share = share_of(kTower, picture.patches(), {predict(picture)});
      return known == nullptr ? share.time.count : known->correct(share).count;
    };
    const std::vector<MediaRound> used = deal(shapes, batch.plan, by_known);
    batch.encoders = {{.chain = kTower,
                       .seats = seats_.replicas,
                       .is_colocated = seats_.passes > 0,
                       .used = list(used),
                       .without = list(deal(shapes, batch.plan, predict))}};
    correction_.end_step(step * kPictures, batch, measure(batch, used));
    const auto truth = [](const Grid& picture) { return std::llround(1e9 * take(picture)); };
    return {.dealt = level_of(used), .by_truth = level_of(deal(shapes, batch.plan, truth))};
  }
  Level mean_level(std::int64_t from, std::int64_t to) {
    Level mean;
    const auto steps = static_cast<double>(to - from);
    for (std::int64_t step = from; step < to; ++step) {
      const Level level = run_step(step);
      mean.dealt += level.dealt / steps;
      mean.by_truth += level.by_truth / steps;
    }
    return mean;
  }
  BatchCorrection& correction() { return correction_; }

 private:
  [[nodiscard]] PredictedBatch plan(const std::vector<SampleShape>& shapes) const {
    std::vector<SampleLoad> loads;
    for (const SampleShape& shape : shapes) {
      const Grid& picture = shape.images[0];
      loads.push_back(
          {.tokens = shape.tokens,
           .chains = {{{predict(picture)}, picture.patches()}, {{20'000}, shape.tokens.count}}});
    }
    PredictedBatch batch = BatchCorrection::predict(loads);
    batch.plan = plan_step({.samples = loads,
                            .replicas = seats_.takers,
                            .balance = config::Balance::kLpt,
                            .packing = config::Packing::kLevel,
                            .microbatches = kRounds,
                            .capacity = {4096}});
    batch.replica_without = batch.plan.replica_of;
    return batch;
  }
  [[nodiscard]] std::vector<MediaRound> deal(const std::vector<SampleShape>& shapes,
                                             const StepPlan& plan, const MediaCost& cost) const {
    std::vector<MediaRound> rounds =
        list_media(shapes, plan.microbatches, ModalitySet{Modality::kImage});
    deal_media(seats_, cost, rounds);
    return rounds;
  }
  static std::vector<EncodedShare> list(const std::vector<MediaRound>& rounds) {
    std::vector<EncodedShare> shares;
    for (const MediaRound& round : rounds)
      for (const MediaItem& item : round)
        shares.push_back({.share = share_of(kTower, item.grid.patches(), {predict(item.grid)}),
                          .seat = item.seat,
                          .pass = item.pass});
    return shares;
  }
  [[nodiscard]] std::vector<double> times_of(const std::vector<MediaRound>& rounds) const {
    std::vector<double> times(static_cast<std::size_t>(seats_.replicas));
    for (const MediaRound& round : rounds)
      for (const MediaItem& item : round) times[item.seat] += take(item.grid);
    return times;
  }
  [[nodiscard]] double level_of(const std::vector<MediaRound>& rounds) const {
    const std::vector<double> times = times_of(rounds);
    const double sum = std::accumulate(times.begin(), times.end(), 0.0);
    return std::ranges::max(times) * static_cast<double>(times.size()) / sum;
  }
  /// What all ranks measure.
  [[nodiscard]] std::vector<MeasuredPart> measure(const PredictedBatch& batch,
                                                  const std::vector<MediaRound>& rounds) const {
    std::vector<MeasuredPart> parts;
    for (const PackedBins& own : batch.plan.microbatches) {
      MeasuredPart part{.place = std::ssize(parts)};
      for (std::int64_t bin = 0; bin < own.bins(); ++bin)
        part.passes.push_back(kSample * static_cast<double>(own.bin(bin).size()));
      parts.push_back(std::move(part));
    }
    for (std::int64_t seat = 0; seat < seats_.replicas; ++seat)
      parts.push_back({.encoder = 0, .place = seat, .passes = std::vector<double>(kRounds)});
    for (const MediaRound& round : rounds)
      for (const MediaItem& item : round)
        parts[static_cast<std::size_t>(seats_.takers + item.seat)].passes[item.pass] +=
            take(item.grid);
    const double tower = std::ranges::max(times_of(rounds));
    const double backbone = kSample * kPictures / static_cast<double>(seats_.takers);
    for (MeasuredPart& part : parts)
      part.step = seats_.passes > 0 ? backbone + tower : std::max(backbone, tower);
    return parts;
  }

  MediaSeats seats_;
  BatchCorrection correction_;
};

const MediaSeats kSeparate{.replicas = 5, .takers = 2};
const MediaSeats kAsMany{.replicas = 4, .takers = 4};
const MediaSeats kColocated{
    .passes = 2, .replicas = 4, .takers = 2, .home_ranks = 2, .seat_ranks = 1};

TEST(EncoderCorrection, MakesSeatsLevelWhoseItemsTakeLongerThanPredicted) {
  for (const MediaSeats& seats : {kSeparate, kAsMany, kColocated}) {
    SCOPED_TRACE(str(seats.replicas, " seats, ", seats.passes, " passes"));
    TowerRun run(seats);
    const Level before = run.mean_level(0, 4);
    const Level after = run.mean_level(12, 40);
    EXPECT_GT(before.dealt, 1.02 * before.by_truth);
    EXPECT_LT(after.dealt, 1.02 * after.by_truth);
    EXPECT_LT(after.dealt, 1.05);
    EXPECT_EQ(run.correction().state().phase, CorrectionPhase::kOn) << "it pays";
  }
}

TEST(EncoderCorrection, GoesOnFromWhatItSavedWithTheSameEncodersAlone) {
  TowerRun run(kSeparate);
  (void)run.mean_level(0, 20);
  const Json saved = parse_json(run.correction().save().dump(), "state");
  TowerRun again(kSeparate);
  again.correction().restore(saved, "state");
  EXPECT_EQ(again.correction().state(), run.correction().state());
  EXPECT_EQ(again.correction().save(), run.correction().save());
  BatchCorrection inline_tower(2 * kPictures, kSoon);
  inline_tower.restore(saved, "state");
  EXPECT_EQ(inline_tower.state(), BatchCorrection(2 * kPictures, kSoon).state());
}

}  // namespace
}  // namespace tributary::schedule
