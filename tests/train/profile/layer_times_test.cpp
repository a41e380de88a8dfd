#include "train/profile/layer_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/random.h"

namespace tributary::train {
namespace {

using parallel::LayerPass;

const LayerKey kBlock{"backbone", "block"};
const LayerKey kHead{"backbone", "head"};

LayerMark mark(const LayerKey& key, LayerPass pass, double time, std::int64_t live = 0,
               std::int64_t peak = 0) {
  return {.layer = key, .pass = pass, .time = time, .live = live, .peak = peak};
}

TEST(CutForward, GivesEachLayerTheTimeUntilItsEnd) {
  const MarkedStretch stretch{.begin = mark({}, LayerPass::kForward, 10, 100),
                              .marks = {mark(kBlock, LayerPass::kForward, 13, 140),
                                        mark(kBlock, LayerPass::kForward, 15, 170),
                                        mark(kHead, LayerPass::kForward, 16, 175)},
                              .end = mark({}, LayerPass::kForward, 20, 171)};
  const LayerUses uses = cut_forward(stretch);
  EXPECT_EQ(uses.at(kBlock).layers, 2);
  EXPECT_DOUBLE_EQ(uses.at(kBlock).forward, 5);
  EXPECT_EQ(uses.at(kBlock).kept, 70);
  EXPECT_EQ(uses.at(kHead).layers, 1);
  EXPECT_DOUBLE_EQ(uses.at(kHead).forward, 5) << "what follows the last layer is its own";
  EXPECT_EQ(uses.at(kHead).kept, 1);
}

TEST(CutBackward, GivesEachLayerTheTimeFromItsBegin) {
  const MarkedStretch stretch{.begin = mark({}, LayerPass::kForward, 0, 100),
                              .marks = {mark(kHead, LayerPass::kBackward, 1, 100, 130),
                                        mark(kBlock, LayerPass::kBackward, 4, 90, 150),
                                        mark(kBlock, LayerPass::kRecompute, 5, 90, 95),
                                        mark(kBlock, LayerPass::kBackward, 7, 120, 140),
                                        mark(kBlock, LayerPass::kWeights, 11, 80, 160)},
                              .end = mark({}, LayerPass::kForward, 12, 60, 85)};
  const LayerUses uses = cut_backward(stretch);
  EXPECT_DOUBLE_EQ(uses.at(kHead).backward, 4) << "what lies before the first layer is its own";
  EXPECT_EQ(uses.at(kHead).peak, 50);
  EXPECT_DOUBLE_EQ(uses.at(kBlock).backward, 1 + 4);
  EXPECT_DOUBLE_EQ(uses.at(kBlock).recompute, 2);
  EXPECT_DOUBLE_EQ(uses.at(kBlock).weights, 1);
  EXPECT_EQ(uses.at(kBlock).peak, 50);
}

TEST(CutStretches, GiveEachLayerTheAttentionWithinIt) {
  const auto at = [](const LayerKey& key, LayerPass pass, double time, double attention) {
    LayerMark of = mark(key, pass, time);
    of.attention = attention;
    return of;
  };
  const LayerUses forward = cut_forward(
      {.begin = at({}, LayerPass::kForward, 0, 5),
       .marks = {at(kBlock, LayerPass::kForward, 4, 6), at(kBlock, LayerPass::kForward, 8, 8.5),
                 at(kHead, LayerPass::kForward, 9, 8.5)},
       .end = at({}, LayerPass::kForward, 9, 8.5)});
  EXPECT_DOUBLE_EQ(forward.at(kBlock).attention_forward, 3.5);
  EXPECT_DOUBLE_EQ(forward.at(kHead).attention_forward, 0);
  const LayerUses backward = cut_backward(
      {.begin = at({}, LayerPass::kForward, 0, 1),
       .marks = {at(kHead, LayerPass::kBackward, 1, 1), at(kBlock, LayerPass::kRecompute, 2, 1),
                 at(kBlock, LayerPass::kBackward, 4, 2), at(kBlock, LayerPass::kBackward, 7, 4)},
       .end = at({}, LayerPass::kForward, 9, 5)});
  EXPECT_DOUBLE_EQ(backward.at(kBlock).attention_backward, 3) << "without that of the repetition";
  EXPECT_DOUBLE_EQ(backward.at(kHead).attention_backward, 0);
}

/// Whatever is marked, no nanosecond is lost and none is counted twice.
TEST(CutStretches, AddUpToTheWhole) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RandomStream random(seed, "stretch");
    MarkedStretch stretch;
    double time = static_cast<double>(random.between(0, 50));
    std::int64_t live = random.between(0, 1000);
    stretch.begin = mark({}, LayerPass::kForward, time, live);
    const std::int64_t marks = random.between(1, 12);
    const bool forward = random.below(2) == 0;
    for (std::int64_t i = 0; i < marks; ++i) {
      time += static_cast<double>(random.between(0, 9));
      live += random.between(0, 99) - 50;
      const auto pass = forward ? LayerPass::kForward : static_cast<LayerPass>(1 + random.below(3));
      stretch.marks.push_back(mark({"m", std::to_string(random.below(4))}, pass, time, live));
    }
    stretch.end = mark({}, LayerPass::kForward, time + 3, live + 7);
    double sum = 0;
    std::int64_t kept = 0;
    for (const auto& [key, use] : forward ? cut_forward(stretch) : cut_backward(stretch)) {
      sum += use.forward + use.backward + use.recompute + use.weights;
      kept += use.kept;
    }
    EXPECT_DOUBLE_EQ(sum, stretch.end.time - stretch.begin.time) << "seed " << seed;
    if (!forward) continue;
    EXPECT_EQ(kept, stretch.end.live - stretch.begin.live) << "seed " << seed;
  }
}

TEST(SpreadOf, TakesTheMedianAndTheRange) {
  EXPECT_DOUBLE_EQ(spread_of({4, 1, 2}).median, 2);
  EXPECT_DOUBLE_EQ(spread_of({4, 1, 2}).spread, 1.5);
  EXPECT_DOUBLE_EQ(spread_of({4, 1, 2, 3}).median, 2.5);
  EXPECT_DOUBLE_EQ(spread_of({0, 0}).spread, 0);
}

}  // namespace
}  // namespace tributary::train
