#include "train/balance/sample_router.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

#include "config/plan/plan.h"
#include "tests/mesh/thread_ranks.h"
#include "tests/train/equality/trainee.h"
#include "train/balance/step_planner.h"

namespace tributary::train {
namespace {

using config::MeshShape;

constexpr ModalitySet kSeen{Modality::kImage, Modality::kVideo};

/// Ranks of a backbone and a tower; a tower without ranks is inline.
struct Placed {
  MeshShape backbone;
  std::vector<std::int64_t> backbone_ranks;
  MeshShape tower;
  std::vector<std::int64_t> tower_ranks;

  [[nodiscard]] bool is_apart() const { return !tower_ranks.empty(); }
  [[nodiscard]] int seats() const {
    return static_cast<int>(tower.dp_shard * tower.dp_replicate * tower.cp);
  }
};

/// Calls `body` on each rank with its router and world.
void on_ranks(int ranks, const Placed& placed,
              const std::function<void(SampleRouter& router, const mesh::Group& world)>& body) {
  mesh::run_worlds(ranks, [&](const mesh::World& world) {
    config::Plan plan;
    plan.modules.push_back(
        {.name = "backbone", .ranks = placed.backbone_ranks, .mesh = placed.backbone});
    const bool is_colocated = placed.tower_ranks == placed.backbone_ranks;
    if (placed.is_apart())
      plan.modules.push_back(
          {.name = "vision",
           .placement = is_colocated ? config::Placement::kColocated : config::Placement::kSeparate,
           .ranks = placed.tower_ranks,
           .mesh = placed.tower});
    const Meshes meshes = open_meshes(plan, world, /*kv_heads=*/2);
    RunLanes run;
    if (placed.is_apart())
      run.edges.push_back({.encoder = "vision", .takes = kSeen, .ranks = {}, .seats = {}});
    SampleRouter router(run, meshes, /*batch_samples=*/12);
    body(router, world.all());
  });
}

const std::vector<std::pair<int, Placed>>& places() {
  static const std::vector<std::pair<int, Placed>> all{
      {4, {{.pp = 2, .tp = 2}, {0, 1, 2, 3}, {}, {}}},
      {5, {{.dp_shard = 2}, {0, 1}, {.dp_shard = 3}, {2, 3, 4}}},
      {6, {{.dp_shard = 2, .tp = 2}, {1, 2, 3, 5}, {.tp = 2}, {0, 4}}},
      {6, {{.pp = 2, .dp_shard = 2}, {0, 1, 2, 3}, {.pp = 2}, {4, 5}}},
      {4, {{.pp = 2, .tp = 2}, {0, 1, 2, 3}, {.dp_shard = 4}, {0, 1, 2, 3}}},
      {4, {{.dp_shard = 2, .cp = 2}, {0, 1, 2, 3}, {.dp_shard = 2, .tp = 2}, {0, 1, 2, 3}}}};
  return all;
}

TEST(SampleRouter, GivesEverySampleOneReaderAndTakesItWhereItIsNeeded) {
  for (const auto& [ranks, placed] : places())
    on_ranks(ranks, placed, [&](SampleRouter& router, const mesh::Group& world) {
      const std::int64_t replicas = placed.backbone.dp_shard;
      for (std::int64_t place = 0; place < 12; ++place) {
        std::vector<EncodingSeat> seats;  // of up to two media
        std::set<std::int32_t> places_of_rows;
        for (std::int64_t i = 0; placed.is_apart() && i < place % 3; ++i) {
          const auto seat = static_cast<std::int32_t>((place + i) % placed.seats());
          seats.push_back({.edge = 0, .seat = seat});
          places_of_rows.insert(seat);
        }
        const SampleRoute route = router.route(place % replicas, place, seats);
        std::set<int> taking;
        std::set<int> with_rows;  // of pictures
        for (const auto& [rank, rows] : route.taken_by) {
          taking.insert(rank);
          if (rows.has(Modality::kImage)) with_rows.insert(rank);
        }
        EXPECT_TRUE(taking.contains(route.reader));
        const bool needs_rows = !placed.is_apart() || !seats.empty();
        EXPECT_EQ(with_rows.contains(route.reader), needs_rows);
        EXPECT_EQ(std::ssize(route.replica), placed.backbone.world() / replicas);
        for (const int rank : route.replica) EXPECT_TRUE(taking.contains(rank));
        if (placed.is_apart()) {
          EXPECT_EQ(with_rows.size(), places_of_rows.size() * placed.tower.tp);
        }

        const data::SampleDuty duty = router.duty_of(route);
        EXPECT_EQ(duty.takes, taking.contains(world.index()));
        EXPECT_EQ(duty.counts, std::ranges::count(route.replica, world.index()) == 1);
        const std::vector<std::int64_t> sums =
            world.sum(std::vector<std::int64_t>{duty.reads, duty.reads && !duty.takes});
        EXPECT_EQ(sums, (std::vector<std::int64_t>{1, 0})) << "sample " << place;
      }
    });
}

TEST(SampleRouter, LetsTheRanksOfASeatReadInTurn) {
  const Placed placed{{.dp_shard = 2}, {0, 1}, {.tp = 2}, {2, 3}};
  on_ranks(4, placed, [](SampleRouter& router, const mesh::Group&) {
    const std::vector<EncodingSeat> seat(1);
    EXPECT_EQ(router.route(1, 0, seat).reader, 2);
    EXPECT_EQ(router.route(1, 1, seat).reader, 3);
    EXPECT_EQ(router.route(1, 1, {}).reader, 1) << "text is read where it is trained on";
  });
}

TEST(SampleRouter, DealsABatchByTheSeatsOfItsMedia) {
  const Placed placed{{.dp_shard = 2}, {0, 1}, {.dp_shard = 3}, {2, 3, 4}};
  on_ranks(5, placed, [](SampleRouter& router, const mesh::Group& world) {
    const auto item = [](int sample, int seat) {
      schedule::MediaItem made;
      made.sample = sample;
      made.seat = seat;
      return made;
    };
    const DealtItems media{{{item(0, 1), item(2, 2)}, {item(0, 0)}}};
    const std::vector<data::SampleDuty> duties =
        router.deal(/*first_index=*/30, std::vector<std::int32_t>{0, 1, 1}, media);
    const std::vector<std::set<int>> taking{{0, 2, 3}, {1}, {1, 4}};
    const std::vector<int> reader{3, 1, 4};
    for (std::size_t i = 0; i < duties.size(); ++i) {
      EXPECT_EQ(duties[i].takes, taking[i].contains(world.index())) << i;
      EXPECT_EQ(duties[i].reads, reader[i] == world.index()) << i;
    }
    EXPECT_TRUE(router.passes());
  });
}

data::EncodedSample sample_of(std::int64_t id) {
  data::EncodedSample sample;
  sample.id = id;
  sample.tokens = {1, 2, 3};
  sample.items.push_back({.grid = {1, 2, 2}, .rows = std::vector<float>(4, 0.5F)});
  return sample;
}

TEST(PartSamples, SetsRowsApartFromTheSamplesOfAReplica) {
  for (const std::int64_t replica : {-1, 0, 1}) {
    const TakenSamples taken = part_samples({sample_of(10), sample_of(11), sample_of(12)}, 10,
                                            std::vector<std::int32_t>{0, 1, 0}, replica, kSeen);
    std::vector<std::int64_t> own;
    for (const data::EncodedSample& sample : taken.own) {
      own.push_back(sample.id);
      EXPECT_EQ(sample.tokens.size(), 3U);
      ASSERT_EQ(sample.items.size(), 1U);
      EXPECT_EQ(sample.items[0].grid, (Grid{1, 2, 2}));
      EXPECT_TRUE(sample.items[0].rows.empty());
    }
    const std::vector<std::vector<std::int64_t>> wanted{{}, {10, 12}, {11}};
    EXPECT_EQ(own, wanted[static_cast<std::size_t>(replica + 1)]);
    ASSERT_EQ(taken.encoded.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(taken.encoded[i].id, static_cast<std::int64_t>(10 + i));
      EXPECT_TRUE(taken.encoded[i].tokens.empty());
      EXPECT_EQ(taken.encoded[i].items.at(0).rows.size(), 4U);
    }
  }
}

/// The seats of the media of each sample, by modality and place.
std::vector<std::vector<EncodingSeat>> seats_in(const DealtMedia& media) {
  return seats_of_samples(media.items, media.shapes.size());
}

TEST(StepPlanner, KeepsMediaOnTheirSeatsWhenASampleIsReplaced) {
  config::RunConfig config;
  config.batch.global_samples = 6;
  config.batch.capacity_tokens = {64};
  for (const std::int64_t passes : {0, 2}) {
    const FeatureEdge edge{.encoder = "vision",
                           .takes = kSeen,
                           .ranks = {},
                           .seats = {.passes = passes, .replicas = 3}};
    StepPlanner planner(config, tiny_model_config(/*sees=*/true), mesh::Mesh(),
                        std::span(&edge, 1));
    std::vector<SampleShape> shapes;
    for (std::int64_t i = 0; i < 6; ++i)
      shapes.push_back({.tokens = {20},
                        .target_tokens = {2},
                        .images = {Grid{1, 2 + 2 * i, 4}, Grid{1, 2, 8}},
                        .videos = {}});
    (void)planner.plan(0, shapes);
    DealtMedia media = *planner.take(0).media;
    const auto before = seats_in(media);
    shapes[2].tokens = {60};  // fits no bin with others
    shapes[2].images = {Grid{1, 40, 40}, Grid{1, 2, 2}, Grid{1, 2, 2}};
    planner.change({{2, shapes[2]}}, media);
    EXPECT_EQ(media.shapes, shapes);
    const auto after = seats_in(media);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      EXPECT_EQ(after[i].size(), shapes[i].images.size()) << i;
      if (i != 2) {
        EXPECT_EQ(after[i], before[i]) << i;
      }
      for (const EncodingSeat& seat : after[i])
        EXPECT_GT(std::ranges::count(before[i], seat), 0) << "whose rank has the rows";
    }
    for (const schedule::MediaRound& round : media.items.front())
      for (const schedule::MediaItem& item : round) EXPECT_LT(item.pass, count_rounds(media.items));
  }
}

}  // namespace
}  // namespace tributary::train
