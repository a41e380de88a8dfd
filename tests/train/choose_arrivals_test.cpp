#include "train/flow/choose_arrivals.h"

#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>

namespace tributary::train {
namespace {

constexpr std::int64_t kSamples = 12;  // of a batch
constexpr std::int64_t kReplicas = 3;
constexpr std::int64_t kSteps = 40;

/// Makes all steps of a run, of which the window at each is `ahead` batches and features come at
/// random.
class ArrivingRun {
 public:
  ArrivingRun(std::int64_t ahead, unsigned seed) : ahead_(ahead), random_(seed) {
    for (std::int64_t id = 0; id < kSteps * kSamples; ++id)
      all_.push_back({.id = id,
                      .replica = static_cast<std::int32_t>(random_() % kReplicas),
                      .tokens = {1 + static_cast<std::int64_t>(random_() % 90)}});
  }

  /// The step at which each sample is trained on, by id.
  std::map<std::int64_t, std::int64_t> steps() {
    std::map<std::int64_t, std::int64_t> step_of;
    for (std::int64_t step = 0; step < kSteps; ++step) {
      std::vector<Arrival> open;
      for (Arrival each : all_) {
        if (each.id / kSamples >= step + ahead_ || step_of.contains(each.id)) continue;
        each.is_ready = random_() % 3 == 0;
        each.is_due = each.id / kSamples <= step - ahead_ + 1;
        open.push_back(each);
      }
      for (const auto& microbatch : choose_arrivals(open, kSamples, kReplicas, {100})) {
        std::int64_t tokens = 0;
        for (const memory::PlannedSample& sample : microbatch.samples) {
          const auto id = static_cast<std::int64_t>(sample.id);
          EXPECT_TRUE(step_of.emplace(id, step).second) << "twice: " << id;
          EXPECT_EQ(microbatch.dp_rank, all_[sample.id].replica);
          tokens += sample.tokens;
        }
        EXPECT_LE(tokens, 100);
      }
    }
    return step_of;
  }

 private:
  std::int64_t ahead_;
  std::mt19937 random_;
  std::vector<Arrival> all_;
};

TEST(ChooseArrivals, EverySampleIsChosenOnceAndAtMostAWindowOutOfTurn) {
  for (const std::int64_t ahead : {1, 2, 3, 5})
    for (unsigned seed = 0; seed < 10; ++seed) {
      std::set<std::int64_t> distances;
      const auto step_of = ArrivingRun(ahead, seed).steps();
      ASSERT_EQ(std::ssize(step_of), kSteps * kSamples);
      for (const auto& [id, step] : step_of) distances.insert(step - id / kSamples);
      EXPECT_GE(*distances.begin(), 1 - ahead);
      EXPECT_LE(*distances.rbegin(), ahead - 1);
      EXPECT_EQ(distances.size() > 1, ahead > 1);
    }
}

TEST(ChooseArrivals, ReadySamplesComeFirstAndFullMicrobatchesBeforeThoseThatWait) {
  std::vector<Arrival> open;
  for (std::int64_t id = 0; id < 6; ++id)
    open.push_back({.id = id, .tokens = {50}, .is_ready = id % 2 == 1});
  const auto microbatches = choose_arrivals(open, 5, 1, {100});
  std::vector<std::vector<std::uint64_t>> ids;
  for (const auto& microbatch : microbatches) {
    EXPECT_EQ(microbatch.order, ids.size());
    for (std::vector<std::uint64_t>& own = ids.emplace_back();
         const memory::PlannedSample& sample : microbatch.samples)
      own.push_back(sample.id);
  }
  EXPECT_EQ(ids, (std::vector<std::vector<std::uint64_t>>{{1, 3}, {5, 0}, {2}}));
}

TEST(ChooseArrivals, ADueSampleComesThoughItsFeaturesDoNot) {
  const std::vector<Arrival> open{{.id = 0, .tokens = {10}, .is_due = true},
                                  {.id = 7, .tokens = {10}, .is_ready = true},
                                  {.id = 9, .tokens = {10}, .is_ready = true}};
  const auto microbatches = choose_arrivals(open, 2, 1, {100});
  ASSERT_EQ(microbatches.size(), 1);
  EXPECT_EQ(microbatches[0].samples,
            (std::vector<memory::PlannedSample>{{.id = 7, .tokens = 10}, {.id = 0, .tokens = 10}}));
}

TEST(ChooseArrivals, ReplicasAreKeptLevelWhereTheyHaveSamples) {
  std::vector<Arrival> open;
  for (std::int64_t id = 0; id < 40; ++id)
    open.push_back({.id = id,
                    .replica = static_cast<std::int32_t>(id < 20 ? 0 : 1),
                    .tokens = {10 + id % 3},
                    .is_ready = true});
  std::map<std::uint32_t, std::uint64_t> tokens;
  for (const auto& microbatch : choose_arrivals(open, 20, 2, {64}))
    for (const memory::PlannedSample& sample : microbatch.samples)
      tokens[microbatch.dp_rank] += sample.tokens;
  EXPECT_NEAR(static_cast<double>(tokens[0]), static_cast<double>(tokens[1]), 12);
}

}  // namespace
}  // namespace tributary::train
