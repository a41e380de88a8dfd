#include "schedule/deal_media.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <set>

#include "core/place_items.h"
#include "core/random.h"
#include "schedule/pass_groups.h"

namespace tributary::schedule {
namespace {

constexpr ModalitySet kPictures{Modality::kImage, Modality::kVideo};

Grid square(std::int64_t side, std::int64_t time = 1) { return {time, side, side}; }

SampleShape shape_of(std::vector<Grid> images, std::vector<Grid> videos = {}) {
  return {.tokens = {10},
          .target_tokens = {1},
          .images = std::move(images),
          .videos = std::move(videos)};
}

std::int64_t cost_of(const Grid& grid) { return grid.patches() * grid.patches(); }

/// A batch on `replicas`, drawn: samples with up to three images and two clips.
std::vector<MediaRound> draw_rounds(std::uint64_t seed, std::int64_t replicas) {
  RandomStream stream(seed, "media");
  std::vector<SampleShape> shapes;
  std::vector<PackedBins> packs;
  for (std::int64_t replica = 0; replica < replicas; ++replica) {
    PackedBins& pack = packs.emplace_back(PackedBins{{0}, {}});
    for (std::int64_t bin = stream.between(0, 4); bin > 0; --bin) {
      for (std::int64_t i = stream.between(1, 3); i > 0; --i) {
        SampleShape shape = shape_of({});
        for (std::int64_t k = stream.between(0, 3); k > 0; --k)
          shape.images.push_back(square(2 * stream.between(1, 5)));
        for (std::int64_t k = stream.between(0, 2); k > 0; --k)
          shape.videos.push_back(square(2 * stream.between(1, 3), stream.between(1, 6)));
        pack.items.push_back(static_cast<std::int32_t>(shapes.size()));
        shapes.push_back(std::move(shape));
      }
      pack.first.push_back(static_cast<std::int32_t>(pack.items.size()));
    }
  }
  return list_media(shapes, packs, kPictures);
}

/// Calls `check` on many batches that were dealt to these seats.
void for_drawn(MediaSeats seats, const std::function<void(const std::vector<MediaRound>&)>& check) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::vector<MediaRound> rounds = draw_rounds(seed, seats.takers);
    const std::vector<MediaRound> listed = rounds;
    deal_media(seats, cost_of, rounds);
    ASSERT_EQ(rounds.size(), listed.size());
    for (std::size_t i = 0; i < rounds.size(); ++i)
      EXPECT_TRUE(std::ranges::equal(rounds[i], listed[i], [](MediaItem a, const MediaItem& b) {
        a.home = a.seat = a.pass = 0;
        return a == b;
      })) << "dealing keeps whole items in their order";
    check(rounds);
    std::vector<MediaRound> again = listed;
    deal_media(seats, cost_of, again);
    EXPECT_EQ(again, rounds);
  }
}

/// The cost of items by what `place_of` says, and how much the largest may be: the mean and one
/// item more.
template <class PlaceOf>
void expect_level(const std::vector<MediaRound>& rounds, std::int64_t places, PlaceOf place_of) {
  std::vector<std::int64_t> loads(static_cast<std::size_t>(places));
  std::int64_t largest = 0;
  for (const MediaRound& round : rounds)
    for (const MediaItem& item : round) {
      loads.at(static_cast<std::size_t>(place_of(item))) += cost_of(item.grid);
      largest = std::max(largest, cost_of(item.grid));
    }
  const std::int64_t sum = std::accumulate(loads.begin(), loads.end(), std::int64_t{0});
  EXPECT_LE(std::ranges::max(loads), sum / places + largest);
}

std::int64_t seat_of(const MediaItem& item) { return item.seat; }

TEST(ListMedia, GoesByReplicaThenImagesThenClips) {
  const std::vector<SampleShape> shapes{shape_of({square(2), square(4)}, {square(2, 3)}),
                                        shape_of({}), shape_of({square(6)}),
                                        shape_of({}, {square(4, 2)}), shape_of({square(8)})};
  const std::vector<PackedBins> packs{{{0, 3, 4}, {3, 1, 0, 4}}, {{0, 1}, {2}}};
  const std::vector<MediaRound> rounds = list_media(shapes, packs, kPictures);
  ASSERT_EQ(rounds.size(), 2U);
  const auto item = [](int sample, int place, Modality modality, Grid grid, int replica) {
    MediaItem listed;
    listed.sample = sample;
    listed.place = place;
    listed.modality = modality;
    listed.grid = grid;
    listed.replica = replica;
    return listed;
  };
  EXPECT_EQ(rounds[0], (MediaRound{item(0, 0, Modality::kImage, square(2), 0),
                                   item(0, 1, Modality::kImage, square(4), 0),
                                   item(3, 0, Modality::kVideo, square(4, 2), 0),
                                   item(0, 0, Modality::kVideo, square(2, 3), 0),
                                   item(2, 0, Modality::kImage, square(6), 1)}));
  EXPECT_EQ(rounds[1], (MediaRound{item(4, 0, Modality::kImage, square(8), 0)}));
}

TEST(ListMedia, GivesARoundToEachMicrobatchOfTheLongestReplica) {
  const std::vector<SampleShape> shapes{shape_of({}), shape_of({})};
  const std::vector<PackedBins> packs{{{0, 1, 2}, {0, 1}}, {{0}, {}}};
  const std::vector<MediaRound> rounds = list_media(shapes, packs, kPictures);
  ASSERT_EQ(rounds.size(), 2U);
  EXPECT_TRUE(rounds[0].empty());
  EXPECT_TRUE(list_media({}, {}, kPictures).empty());
}

TEST(DealMedia, HomesShareTheItemsOfAReplica) {
  for_drawn({.replicas = 2, .takers = 2, .homes = 3}, [](const std::vector<MediaRound>& rounds) {
    for (const MediaRound& round : rounds)
      for (std::int32_t replica = 0; replica < 2; ++replica) {
        std::vector<Grid> grids;
        std::vector<std::int64_t> homes;
        for (const MediaItem& item : round) {
          if (item.replica != replica) continue;
          grids.push_back(item.grid);
          homes.push_back(item.home);
        }
        EXPECT_EQ(homes, share_items(grids, 3));
      }
  });
}

TEST(DealMedia, OfASeparateEncoderWithAsManyReplicasStayWithTheirsWhereThatIsLevel) {
  const std::vector<SampleShape> shapes(6, shape_of({square(4)}));
  std::vector<MediaRound> rounds = list_media(
      shapes, std::vector<PackedBins>{{{0, 1}, {4}}, {{0, 1}, {0}}, {{0, 1}, {5}}}, kPictures);
  deal_media({.replicas = 3, .takers = 3}, cost_of, rounds);
  for (const MediaItem& item : rounds[0]) EXPECT_EQ(item.seat, item.replica);
}

TEST(DealMedia, AClipIsSharedByReplicasOfASeparateEncoderThatAreAsMany) {
  std::vector<MediaRound> rounds{{{.modality = Modality::kVideo, .grid = {8, 4, 4}},
                                  {.sample = 1, .grid = square(4), .replica = 1}}};
  deal_media(seats_of({.dp_shard = 2}, {.dp_shard = 2}, 0, false), cost_of, rounds);
  expect_level(rounds, 2, seat_of);
  std::map<std::int32_t, std::int64_t> frames;  // of the clip, by seat
  for (const MediaItem& item : rounds[0])
    if (item.sample == 0) frames[item.seat] += item.grid.time;
  EXPECT_EQ(frames.size(), 2U);
}

TEST(DealMedia, OfASeparateEncoderGoToAllItsSeats) {
  for (const MediaSeats& seats :
       {MediaSeats{.replicas = 2, .seats = 2, .takers = 3}, MediaSeats{.replicas = 5, .takers = 2},
        MediaSeats{.replicas = 1, .takers = 4}, MediaSeats{.replicas = 3, .seats = 2, .takers = 3}})
    for_drawn(seats, [&](const std::vector<MediaRound>& rounds) {
      expect_level(rounds, seats.replicas * seats.seats, seat_of);
      for (std::size_t round = 0; round < rounds.size(); ++round)
        for (const MediaItem& item : rounds[round])
          EXPECT_EQ(item.pass, static_cast<std::int32_t>(round));
    });
}

TEST(DealMedia, OfAColocatedEncoderGoToSeatsPassByPass) {
  for (const auto& [passes, levels] :
       {std::pair{1, false}, {2, false}, {7, false}, {1, true}, {2, true}, {3, true}, {7, true}}) {
    const MediaSeats seats{
        .passes = passes, .levels_passes = levels, .replicas = 2, .seats = 2, .takers = 2};
    for_drawn(seats, [&](const std::vector<MediaRound>& rounds) {
      const PassGroups groups(passes, std::ssize(rounds));
      expect_level(rounds, 4, seat_of);
      std::vector<MediaRound> so_far;
      for (std::size_t round = 0; round < rounds.size(); ++round) {
        for (const MediaItem& item : rounds[round])
          EXPECT_EQ(item.pass, groups.pass_of(static_cast<std::int64_t>(round)));
        so_far.push_back(rounds[round]);
        if (levels && static_cast<std::int64_t>(round) + 1 ==
                          groups.first_of(groups.pass_of(static_cast<std::int64_t>(round)) + 1))
          expect_level(so_far, 4, seat_of);
      }
    });
  }
}

/// Patches that the fullest pass of any seat has.
std::int64_t fullest_pass(const std::vector<MediaRound>& rounds) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> patches;
  std::int64_t max = 0;
  for (const MediaRound& round : rounds)
    for (const MediaItem& item : round)
      max = std::max(max, patches[{item.seat, item.pass}] += item.grid.patches());
  return max;
}

/// A fifth more than each of two seats has in a pass, on average.
std::int64_t tight_capacity(const std::vector<MediaRound>& rounds, std::int64_t passes) {
  std::int64_t all = 0;
  for (const MediaRound& round : rounds)
    for (const MediaItem& item : round) all += item.grid.patches();
  const std::int64_t places = 2 * std::min<std::int64_t>(passes, std::ssize(rounds));
  return 1 + 6 * all / 5 / std::max<std::int64_t>(1, places);
}

TEST(DealMedia, HoldsLessInAPassWhereMemoryCounts) {
  for (const std::int64_t passes : {1, 2}) {
    std::int64_t free = 0;
    std::int64_t limited = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      MediaSeats seats{.splits_frames = true, .passes = passes, .replicas = 2, .takers = 3};
      std::vector<MediaRound> rounds = draw_rounds(seed, seats.takers);
      std::vector<MediaRound> again = rounds;
      const std::int64_t capacity = tight_capacity(rounds, passes);
      deal_media(seats, cost_of, rounds);
      seats.capacity = capacity;
      deal_media(seats, cost_of, again);
      free += std::max<std::int64_t>(0, fullest_pass(rounds) - capacity);
      limited += std::max<std::int64_t>(0, fullest_pass(again) - capacity);
      for (const MediaRound& round : again)
        for (const MediaItem& item : round)
          EXPECT_TRUE(2 * item.grid.patches() <= capacity + 2 * item.grid.rows * item.grid.columns)
              << "a group of frames of more than half a pass";
    }
    EXPECT_GT(free, 0) << passes << " passes";
    // A colocated tower encodes each microbatch in its pass, whatever the others have room for.
    EXPECT_LT(limited, passes == 0 ? free / 2 : free)
        << passes << " passes: patches above the capacity";
  }
}

// One long clip in each pass: a mean over the step would leave it whole, on one seat of four.
TEST(DealMedia, SplitsClipsByThePassThatIsDispatchedByItself) {
  std::vector<MediaRound> rounds;
  for (std::int32_t sample = 0; sample < 8; ++sample)
    rounds.push_back({{.sample = sample, .modality = Modality::kVideo, .grid = {64, 4, 4}}});
  deal_media({.splits_frames = true, .passes = 8, .levels_passes = true, .replicas = 4}, cost_of,
             rounds);
  for (const MediaRound& round : rounds) {
    std::set<std::int32_t> seats;
    for (const MediaItem& item : round) seats.insert(item.seat);
    EXPECT_EQ(seats.size(), 4);
  }
}

TEST(PassGroups, CutMicrobatchesEvenlyInTheirOrder) {
  for (std::int64_t microbatches = 1; microbatches <= 13; ++microbatches)
    for (std::int64_t max = 1; max <= 15; ++max) {
      const PassGroups groups(max, microbatches);
      EXPECT_EQ(groups.passes, std::min(max, microbatches));
      std::vector<std::int64_t> sizes(static_cast<std::size_t>(groups.passes));
      for (std::int64_t i = 0; i < microbatches; ++i) {
        const std::int64_t pass = groups.pass_of(i);
        EXPECT_LE(groups.first_of(pass), i);
        EXPECT_LT(i, groups.first_of(pass + 1));
        ++sizes.at(static_cast<std::size_t>(pass));
      }
      EXPECT_LE(std::ranges::max(sizes) - std::ranges::min(sizes), 1);
      EXPECT_EQ(groups.first_of(groups.passes), microbatches);
      EXPECT_EQ(groups.pass_of(microbatches + 4), groups.passes - 1) << "idle microbatches";
    }
  EXPECT_EQ(PassGroups(3, 0).passes, 1);
}

TEST(DealMedia, OfAColocatedEncoderStayOnTheRanksOfTheirHome) {
  // Two replicas of two homes, each on 2 ranks; seats of one rank.
  MediaSeats seats = seats_of({.dp_shard = 8}, {.dp_shard = 2, .cp = 2, .tp = 2}, 1, false);
  seats.splits_frames = false;
  std::int64_t away = 0;
  std::int64_t items = 0;
  for_drawn(seats, [&](const std::vector<MediaRound>& rounds) {
    for (const MediaRound& round : rounds)
      for (const MediaItem& item : round) {
        const std::int32_t home = item.replica * 2 + item.home;
        if (item.seat / 2 != home) ++away;
        ++items;
      }
  });
  EXPECT_LT(2 * away, items) << "of 8 seats 2 are at home";
}

TEST(DealMedia, GivesEqualItemsInTheirOrderToTheLowestSeat) {
  const std::vector<SampleShape> shapes(3, shape_of({square(4)}));
  std::vector<MediaRound> rounds =
      list_media(shapes, std::vector<PackedBins>{{{0, 2, 3}, {0, 1, 2}}}, kPictures);
  deal_media({.replicas = 2}, cost_of, rounds);
  EXPECT_EQ(rounds[0][0].seat, 0);
  EXPECT_EQ(rounds[0][1].seat, 1);
  EXPECT_EQ(rounds[1][0].seat, 0);
}

}  // namespace
}  // namespace tributary::schedule
