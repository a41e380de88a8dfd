#include "tests/parallel/edge_ranks.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <tuple>

#include <ATen/ATen.h>

namespace tributary::parallel {

Seats seats_of(std::span<const int> ranks, std::int64_t tp) {
  Seats seats;
  for (std::size_t first = 0; first < ranks.size(); first += static_cast<std::size_t>(tp))
    seats.emplace_back(ranks.begin() + first, ranks.begin() + first + tp);
  return seats;
}

EdgeRank::EdgeRank(const mesh::World& world) : world_(world) {
  std::vector<int> all(kRanks);
  std::iota(all.begin(), all.end(), 0);
  for (const char* name : {"features.up", "features.down", "gradients.up", "gradients.down"})
    links_.push_back(world_.open(name, all, mesh::GroupUse::kMessages));
}

Edge EdgeRank::open(const Crossing& crossing, const std::string& name) {
  return {.features = {&links_[0], &links_[1]},
          .gradients = {&links_[2], &links_[3]},
          .source = side(crossing.source, name + ".source"),
          .destination = side(crossing.destination, name + ".destination")};
}

std::array<std::int64_t, 4> EdgeRank::sent_bytes() const {
  std::array<std::int64_t, 4> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = links_[i].traffic().bytes;
  return bytes;
}

EdgeSide EdgeRank::side(const Seats& seats, const std::string& name) {
  EdgeSide side{.seats = seats};
  for (std::size_t seat = 0; seat < seats.size(); ++seat)
    if (std::ranges::find(seats[seat], world_.rank()) != seats[seat].end()) {
      side.seat = static_cast<int>(seat);
      side.tp = &tp_.emplace_back(world_.open(name, seats[seat]));
    }
  return side;
}

void run_edge_ranks(const std::function<void(int rank, EdgeRank& here)>& body, bool shares_memory) {
  mesh::run_worlds(
      kRanks,
      [&](const mesh::World& world) {
        EdgeRank here(world);
        body(world.rank(), here);
        world.meet();
      },
      shares_memory);
}

BySeat random_rows(const std::vector<std::int64_t>& counts, at::ScalarType dtype) {
  BySeat rows;
  for (const std::int64_t count : counts)
    rows.push_back(at::randn({count, kWidth}, at::kDouble).mul(50).to(dtype));
  return rows;
}

at::Tensor of_own_seat(const BySeat& rows, const EdgeSide& side) {
  return side.seat < 0 ? rows.front().narrow(0, 0, 0) : rows[static_cast<std::size_t>(side.seat)];
}

void wait_all(std::vector<mesh::Pending> pending) {
  for (mesh::Pending& one : pending) one.wait();
}

Outcome cross(const Edge& edge, const EdgeRows& rows, const BySeat& made, const BySeat& gradients) {
  Redistribute route(edge, rows, /*tag=*/0);
  const at::TensorOptions options = made.front().options();
  Outcome outcome;
  Arriving features = route.receive(kWidth, options);
  std::vector<mesh::Pending> sent = route.send(of_own_seat(made, edge.source));
  outcome.kept = route.take(std::move(features));
  wait_all(std::move(sent));
  sent = route.send_gradient(of_own_seat(gradients, edge.destination));
  outcome.gradient = route.take_gradient(route.receive_gradient(kWidth, options));
  wait_all(std::move(sent));
  return outcome;
}

BySeat select(const EdgeRows& rows, const BySeat& made) {
  BySeat kept;
  for (const std::int64_t count : rows.kept)
    kept.push_back(at::full({count, kWidth}, -7, made.front().options()));
  for (const RowRun& run : rows.runs)
    kept[run.to]
        .narrow(0, run.place, run.rows)
        .copy_(made[run.from].index_select(0, at::arange(run.first, run.first + run.rows)));
  return kept;
}

BySeat add_gradients(EdgeRows rows, const BySeat& gradients) {
  BySeat sums;
  for (const std::int64_t count : rows.made)
    sums.push_back(at::zeros({count, kWidth}, gradients.front().options()));
  std::ranges::sort(rows.runs, {}, [](const RowRun& run) { return std::tie(run.to, run.place); });
  for (const RowRun& run : rows.runs)
    for (std::int64_t row = 0; row < run.rows; ++row)
      sums[run.from][run.first + row] += gradients[run.to][run.place + row];
  return sums;
}

BySeat found_by(const Seats& seats, const std::vector<Outcome>& outcomes,
                at::Tensor Outcome::*what) {
  BySeat found;
  for (const std::vector<int>& seat : seats) {
    found.push_back(outcomes[seat.front()].*what);
    for (const int rank : seat) EXPECT_TRUE(at::equal(outcomes[rank].*what, found.back()));
  }
  return found;
}

}  // namespace tributary::parallel
