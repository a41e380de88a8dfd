#include "parallel/redistribute.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mutex>
#include <numeric>
#include <tuple>

#include <ATen/ATen.h>

#include "core/error.h"
#include "core/random.h"
#include "tests/parallel/edge_ranks.h"

namespace tributary::parallel {
namespace {

double product(const BySeat& a, const BySeat& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] * b[i]).sum().item<double>();
  return sum;
}

/// Ranks of both sides: disjoint, overlapping, or the same.
void choose_ranks(RandomStream& random, Crossing& crossing) {
  std::vector<int> ranks(kRanks);
  std::iota(ranks.begin(), ranks.end(), 0);
  random.shuffle(std::span(ranks));
  const std::int64_t source_tp = random.between(1, 3);
  const std::int64_t destination_tp = random.between(1, 3);
  const std::int64_t both = std::lcm(source_tp, destination_tp);
  const std::uint64_t kind = random.below(3);
  std::int64_t source = random.between(1, 6 / source_tp) * source_tp;
  std::int64_t destination = random.between(1, 6 / destination_tp) * destination_tp;
  if (kind == 2) source = destination = random.between(1, 6 / both) * both;
  crossing.source = seats_of(std::span(ranks).first(source), source_tp);
  if (kind == 2) random.shuffle(std::span(ranks).first(source));
  const std::int64_t begin = kind == 0 ? source : kind == 1 ? random.between(0, source - 1) : 0;
  crossing.destination = seats_of(std::span(ranks).subspan(begin, destination), destination_tp);
}

void choose_rows(RandomStream& random, Crossing& crossing) {
  EdgeRows& rows = crossing.rows;
  for (std::size_t seat = 0; seat < crossing.source.size(); ++seat)
    rows.made.push_back(random.below(4) == 0 ? 0 : random.between(1, 9));
  for (std::size_t seat = 0; seat < crossing.destination.size(); ++seat) {
    rows.kept.push_back(0);
    for (std::int64_t runs = random.between(0, 4); runs > 0; --runs) {
      const auto from = static_cast<std::size_t>(random.below(rows.made.size()));
      const std::int64_t first = random.between(0, rows.made[from]);
      const std::int64_t count = random.between(0, rows.made[from] - first);
      rows.runs.push_back(
          {static_cast<int>(from), first, static_cast<int>(seat), rows.kept.back(), count});
      rows.kept.back() += count;
    }
  }
  random.shuffle(std::span(rows.runs));
}

Crossing random_crossing(std::uint64_t seed) {
  RandomStream random(seed, "crossing");
  Crossing crossing;
  choose_ranks(random, crossing);
  choose_rows(random, crossing);
  return crossing;
}

void expect_equal(const BySeat& found, const BySeat& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(at::equal(found[i], expected[i])) << "seat " << i << "\n"
                                                  << found[i] << "\nexpected\n"
                                                  << expected[i];
}

TEST(Redistribute, IsTheAdjointPairOfASelectionOnRandomLayouts) {
  constexpr std::size_t kCases = 120;
  const std::vector<at::ScalarType> dtypes{at::kDouble, at::kBFloat16, at::kDouble, at::kLong};
  at::manual_seed(5);
  std::vector<Crossing> crossings;
  std::vector<BySeat> made, gradients;
  std::vector<std::vector<Outcome>> outcomes(kCases, std::vector<Outcome>(kRanks));
  for (std::size_t i = 0; i < kCases; ++i) {
    crossings.push_back(random_crossing(i));
    made.push_back(random_rows(crossings[i].rows.made, dtypes[i % dtypes.size()]));
    gradients.push_back(random_rows(crossings[i].rows.kept, dtypes[i % dtypes.size()]));
  }
  run_edge_ranks([&](int rank, EdgeRank& here) {
    for (std::size_t i = 0; i < kCases; ++i)
      outcomes[i][rank] = cross(here.open(crossings[i], tributary::str("case", i)),
                                crossings[i].rows, made[i], gradients[i]);
  });
  for (std::size_t i = 0; i < kCases; ++i) {
    SCOPED_TRACE(tributary::str("case ", i));
    const BySeat kept = found_by(crossings[i].destination, outcomes[i], &Outcome::kept);
    const BySeat back = found_by(crossings[i].source, outcomes[i], &Outcome::gradient);
    expect_equal(kept, select(crossings[i].rows, made[i]));
    expect_equal(back, add_gradients(crossings[i].rows, gradients[i]));
    if (made[i].front().scalar_type() != at::kDouble) continue;
    const double forward = product(kept, gradients[i]);
    EXPECT_NEAR(forward, product(made[i], back), 1e-12 * std::max(1.0, std::abs(forward)));
  }
}

/// The rows of an edge with three source seats. Items are made in `order`, each by the seat that
/// `seats` gives; `wanted` lists the items that each seat of the destination keeps.
EdgeRows rows_of_items(const BySeat& items, const std::vector<int>& order,
                       const std::vector<int>& seats, const std::vector<std::vector<int>>& wanted) {
  EdgeRows rows{.made = std::vector<std::int64_t>(3), .kept = {}, .runs = {}};
  std::vector<std::int64_t> first(items.size());
  for (const int item : order) {
    first[item] = rows.made[seats[item]];
    rows.made[seats[item]] += items[item].size(0);
  }
  for (std::size_t to = 0; to < wanted.size(); ++to) {
    rows.kept.push_back(0);
    for (const int item : wanted[to]) {
      rows.runs.push_back(
          {seats[item], first[item], static_cast<int>(to), rows.kept.back(), items[item].size(0)});
      rows.kept.back() += items[item].size(0);
    }
  }
  return rows;
}

TEST(Redistribute, GivesTheSameBitsWhicheverSeatsMakeTheItems) {
  const std::vector<std::vector<int>> wanted{{0, 3, 5, 1}, {4, 1, 2, 1}};
  const std::vector<std::vector<int>> orders{{0, 1, 2, 3, 4, 5}, {5, 2, 0, 4, 3, 1}};
  const std::vector<std::vector<int>> seats{{0, 0, 1, 1, 2, 2}, {2, 1, 1, 0, 1, 2}};
  const Crossing sides{
      .source = {{0, 1}, {2, 3}, {4, 5}}, .destination = {{6, 3, 7}, {8, 0, 9}}, .rows = {}};
  at::manual_seed(8);
  const BySeat items = random_rows({4, 1, 5, 2, 7, 3}, at::kFloat);
  std::vector<std::vector<Outcome>> outcomes(2, std::vector<Outcome>(kRanks));
  std::vector<EdgeRows> rows;
  std::vector<BySeat> made(2);
  for (std::size_t i = 0; i < 2; ++i) {
    rows.push_back(rows_of_items(items, orders[i], seats[i], wanted));
    for (int seat = 0; seat < 3; ++seat) {
      BySeat own{at::empty({0, kWidth})};
      for (const int item : orders[i])
        if (seats[i][item] == seat) own.push_back(items[item]);
      made[i].push_back(at::cat(own));
    }
  }
  const BySeat gradients = random_rows(rows[0].kept, at::kFloat);
  run_edge_ranks([&](int rank, EdgeRank& here) {
    const Edge edge = here.open(sides, "items");
    for (std::size_t i = 0; i < 2; ++i)
      outcomes[i][rank] = cross(edge, rows[i], made[i], gradients);
  });
  expect_equal(found_by(sides.destination, outcomes[1], &Outcome::kept),
               found_by(sides.destination, outcomes[0], &Outcome::kept));
  // Gradients of the items, where each assignment has put them.
  std::vector<BySeat> of_items(2, BySeat(items.size()));
  for (std::size_t i = 0; i < 2; ++i) {
    const BySeat back = found_by(sides.source, outcomes[i], &Outcome::gradient);
    std::vector<std::int64_t> next(3);
    for (const int item : orders[i]) {
      const int seat = seats[i][item];
      of_items[i][item] = back[seat].narrow(0, next[seat], items[item].size(0));
      next[seat] += items[item].size(0);
    }
  }
  expect_equal(of_items[1], of_items[0]);
}

TEST(Redistribute, SendsEachRowOnceWhateverTheTensorParallelism) {
  const EdgeRows rows{.made = {11, 8},
                      .kept = {12, 6},
                      .runs = {{0, 0, 0, 0, 7}, {1, 1, 0, 7, 5}, {0, 2, 1, 0, 6}}};
  std::vector<std::array<std::int64_t, 4>> bytes(9);
  std::mutex mutex;
  at::manual_seed(9);
  const BySeat made = random_rows(rows.made, at::kBFloat16);
  const BySeat gradients = random_rows(rows.kept, at::kFloat);
  run_edge_ranks([&](int /*rank*/, EdgeRank& here) {
    for (int tps = 0; tps < 9; ++tps) {
      std::vector<int> ranks(kRanks);
      std::iota(ranks.begin(), ranks.end(), 0);
      const int source_tp = tps / 3 + 1;
      const int destination_tp = tps % 3 + 1;
      const Crossing crossing{
          .source = seats_of(std::span(ranks).first(2 * source_tp), source_tp),
          .destination = seats_of(std::span(ranks).last(2 * destination_tp), destination_tp),
          .rows = rows};
      const Edge edge = here.open(crossing, tributary::str("tp", tps));
      Redistribute route(edge, rows, /*tag=*/tps);
      const auto before = here.sent_bytes();
      wait_all(route.send(of_own_seat(made, edge.source)));
      (void)route.take(route.receive(kWidth, at::kBFloat16));
      wait_all(route.send_gradient(of_own_seat(gradients, edge.destination)));
      (void)route.take_gradient(route.receive_gradient(kWidth, at::kFloat));
      const auto after = here.sent_bytes();
      const std::scoped_lock lock(mutex);
      for (std::size_t i = 0; i < 4; ++i) bytes[tps][i] += after[i] - before[i];
    }
  });
  // The source has the lower ranks.
  for (const auto& sent : bytes)
    EXPECT_THAT(sent, testing::ElementsAre(18 * kWidth * 2, 0, 0, 18 * kWidth * 4));
}

class Microbatches : public testing::TestWithParam<bool> {};

TEST_P(Microbatches, AreUnderWayTogetherAndReceivedBeforeTheyAreSent) {
  constexpr int kCount = 3;
  Crossing sides;
  sides.source = {{0, 1}, {2, 3}};
  sides.destination = {{1, 0, 4}, {3, 5, 2}};
  RandomStream random(4, "microbatches");
  at::manual_seed(10);
  std::vector<EdgeRows> rows;
  std::vector<BySeat> made, gradients;
  for (int i = 0; i < kCount; ++i) {
    Crossing one{sides.source, sides.destination, {}};
    choose_rows(random, one);
    rows.push_back(one.rows);
    made.push_back(random_rows(one.rows.made, at::kFloat));
    gradients.push_back(random_rows(one.rows.kept, at::kFloat));
  }
  std::vector<std::vector<Outcome>> outcomes(2 * kCount, std::vector<Outcome>(kRanks));
  run_edge_ranks(
      [&](int rank, EdgeRank& here) {
        const Edge edge = here.open(sides, "edge");
        std::vector<Redistribute> routes;
        std::vector<Arriving> arriving;
        std::vector<std::vector<mesh::Pending>> sent;
        for (int i = 0; i < kCount; ++i) routes.emplace_back(edge, rows[i], /*tag=*/i);
        for (Redistribute& route : routes)
          for (int tensor = 0; tensor < 2; ++tensor)
            arriving.push_back(route.receive(kWidth, at::kFloat));
        for (int i = 0; i < kCount; ++i) {
          sent.push_back(routes[i].send(of_own_seat(made[i], edge.source)));
          sent.push_back(routes[i].send(of_own_seat(made[i], edge.source) * 2));
        }
        for (const int i : {2, 0, 1})
          for (int tensor = 0; tensor < 2; ++tensor)
            outcomes[2 * i + tensor][rank].kept =
                routes[i].take(std::move(arriving[2 * i + tensor]));
        arriving.clear();
        for (Redistribute& route : routes)
          arriving.push_back(route.receive_gradient(kWidth, at::kFloat));
        for (int i = 0; i < kCount; ++i)
          sent.push_back(routes[i].send_gradient(of_own_seat(gradients[i], edge.destination)));
        for (const int i : {1, 2, 0})
          outcomes[2 * i][rank].gradient = routes[i].take_gradient(std::move(arriving[i]));
        for (std::vector<mesh::Pending>& messages : sent) wait_all(std::move(messages));
      },
      GetParam());
  for (int i = 0; i < kCount; ++i) {
    SCOPED_TRACE(tributary::str("microbatch ", i));
    BySeat twice;
    for (const at::Tensor& values : made[i]) twice.push_back(values * 2);
    expect_equal(found_by(sides.destination, outcomes[2 * i], &Outcome::kept),
                 select(rows[i], made[i]));
    expect_equal(found_by(sides.destination, outcomes[2 * i + 1], &Outcome::kept),
                 select(rows[i], twice));
    expect_equal(found_by(sides.source, outcomes[2 * i], &Outcome::gradient),
                 add_gradients(rows[i], gradients[i]));
  }
}

INSTANTIATE_TEST_SUITE_P(SharedMemory, Microbatches, testing::Bool());

/// An edge within one rank.
class Refusal : public testing::Test {
 protected:
  void expect(const EdgeRows& rows, const std::string& words) const {
    expect_error([&] { Redistribute(edge_, rows, /*tag=*/0); }, words);
  }
  template <class Act>
  static void expect_error(const Act& act, const std::string& words) {
    try {
      act();
      ADD_FAILURE() << "no error: " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::kBug);
      EXPECT_THAT(error.what(), testing::HasSubstr(words));
    }
  }

  mesh::Group self_;
  EdgeSide side_{.seats = {{0}}, .seat = 0, .tp = &self_};
  Edge edge_{{&self_, &self_}, {&self_, &self_}, side_, side_};
};

TEST_F(Refusal, NamesTheRowThatDoesNotArriveExactlyOnce) {
  const std::string what = "row of a destination does not arrive exactly once; where: seat 0 of ";
  expect({{9}, {6}, {{0, 0, 0, 0, 2}, {0, 4, 0, 3, 3}}}, what + "6 rows; found: row 2 comes from");
  expect({{9}, {6}, {{0, 4, 0, 3, 3}, {0, 0, 0, 0, 4}}},
         what + "6 rows; found: row 3 arrives twice");
  expect({{9}, {6}, {{0, 4, 0, 1, 5}}}, what + "6 rows; found: row 0 comes from nobody");
  expect({{9}, {6}, {{0, 4, 0, 0, 4}}}, what + "6 rows; found: row 4 comes from nobody");
  expect({{9}, {6}, {{0, 0, 0, 0, 7}}}, what + "6 rows; found: row 6 arrives twice");
}

TEST_F(Refusal, FindsRunsAndTensorsThatDoNotFit) {
  expect({{5}, {3}, {{0, 3, 0, 0, 3}}}, "run of rows leaves its seat; where: from seat 0 of 1");
  expect({{5}, {3}, {{0, 0, 1, 0, 3}}}, "to seat 1 of 1; found: rows 0 to 3");
  expect({{5, 5}, {3}, {}}, "rows do not fit the seats of an edge; found: 2 counts for 1 seats");
  Redistribute route(edge_, {{5}, {3}, {{0, 1, 0, 0, 3}}}, /*tag=*/6);
  expect_error(
      [&] {
        (void)route.send(at::zeros({4, 2}));
      },
      "rows are not those of the seat; found: [4, 2]; expected: 5 rows");
  expect_error([&] { (void)route.take(route.receive(2, at::kFloat)); },
               "rows are taken before they are sent; where: rank 0 of an edge, tag 6");
  edge_.source.seats = {{0, 1}};
  expect({{5}, {3}, {{0, 1, 0, 0, 3}}}, "tp group is not that of the seat; where: self");
}

TEST_F(Refusal, IsNoneWhereOneRankKeepsRowsOfItsOwn) {
  Redistribute route(edge_, {{5}, {4}, {{0, 1, 0, 0, 3}, {0, 1, 0, 3, 1}}}, /*tag=*/0);
  EXPECT_EQ(route.source_rows(), 5);
  EXPECT_EQ(route.destination_rows(), 4);
  const at::Tensor rows = at::arange(5, at::kFloat).unsqueeze(1).requires_grad_();
  EXPECT_TRUE(route.send(rows).empty());
  const at::Tensor kept = route.take(route.receive(1, at::kFloat));
  EXPECT_FALSE(kept.requires_grad());
  EXPECT_TRUE(at::equal(kept.flatten(), at::tensor({1.0F, 2.0F, 3.0F, 1.0F})));
  EXPECT_TRUE(route.send_gradient(kept + 1).empty());
  EXPECT_TRUE(at::equal(route.take_gradient(route.receive_gradient(1, at::kFloat)).flatten(),
                        at::tensor({0.0F, 4.0F, 3.0F, 4.0F, 0.0F})));
}

}  // namespace
}  // namespace tributary::parallel
