#include "parallel/redistribute.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/error.h"

namespace tributary::parallel {
namespace {

std::size_t at(int seat) { return static_cast<std::size_t>(seat); }

std::int64_t slice_height(std::int64_t rows, std::size_t ranks) {
  const auto count = static_cast<std::int64_t>(ranks);
  return (rows + count - 1) / count;
}

/// The rank that owns a row, and how many rows from there on it owns.
struct Owner {
  int rank;
  std::int64_t rows;
};

Owner owner_of(const std::vector<int>& seat, std::int64_t seat_rows, std::int64_t row) {
  const std::int64_t height = slice_height(seat_rows, seat.size());
  return {seat[static_cast<std::size_t>(row / height)], height - row % height};
}

void check_runs(const EdgeRows& rows) {
  for (const RowRun& run : rows.runs)
    TRIB_CHECK(run.from >= 0 && run.from < std::ssize(rows.made) && run.to >= 0 &&
                   run.to < std::ssize(rows.kept) && run.first >= 0 && run.rows >= 0 &&
                   run.first + run.rows <= rows.made[at(run.from)],
               .what = "parallel: run of rows leaves its seat",
               .where = str("from seat ", run.from, " of ", rows.made.size(), " to seat ", run.to,
                            " of ", rows.kept.size()),
               .found = str("rows ", run.first, " to ", run.first + run.rows));
}

/// `runs` are in the order of (to, place).
void check_coverage(const EdgeRows& rows) {
  std::vector<std::int64_t> next(rows.kept.size());
  const auto reach = [&](std::size_t seat, std::int64_t place) {
    TRIB_CHECK(place == next[seat],
               .what = "parallel: row of a destination does not arrive exactly once",
               .where = str("seat ", seat, " of ", rows.kept[seat], " rows"),
               .found = str("row ", std::min(place, next[seat]),
                            place < next[seat] ? " arrives twice" : " comes from nobody"));
  };
  for (const RowRun& run : rows.runs) {
    reach(at(run.to), run.place);
    next[at(run.to)] += run.rows;
  }
  for (std::size_t seat = 0; seat < next.size(); ++seat) reach(seat, rows.kept[seat]);
}

}  // namespace

Redistribute::Side::Side(const EdgeSide& side, const std::vector<std::int64_t>& seat_rows,
                         int rank) {
  TRIB_CHECK(side.seats.size() == seat_rows.size() && (side.seat < 0) == (side.tp == nullptr),
             .what = "parallel: rows do not fit the seats of an edge",
             .found = str(seat_rows.size(), " counts for ", side.seats.size(), " seats"));
  if (!side.tp) return;
  const std::vector<int>& ranks = side.seats.at(at(side.seat));
  TRIB_CHECK(side.tp->size() == std::ssize(ranks) && ranks[at(side.tp->index())] == rank,
             .what = "parallel: tp group is not that of the seat", .where = side.tp->name(),
             .found = str("rank ", rank, " of the edge at ", side.tp->index(), " in a group of ",
                          side.tp->size(), " for ", ranks.size(), " ranks"));
  tp = side.tp;
  rows = seat_rows[at(side.seat)];
  height = slice_height(rows, ranks.size());
  slice.row = std::min(tp->index() * height, rows);
  slice.rows = std::min(height, rows - slice.row);
}

void Redistribute::Side::add(int other, Span span) {
  auto share = std::ranges::find(shares, other, &Share::rank);
  if (share == shares.end()) share = shares.insert(share, {other, 0, {}});
  share->rows += span.rows;
  if (!share->spans.empty() && share->spans.back().row + share->spans.back().rows == span.row)
    share->spans.back().rows += span.rows;
  else
    share->spans.push_back(span);
}

/// Cuts the slice wherever the rows that arrive for it begin or end.
void Redistribute::Side::cut_parts() {
  std::map<std::int64_t, std::vector<std::int64_t>> arrived{{slice.row, {}},
                                                            {slice.row + slice.rows, {}}};
  const auto cut = [&](std::int64_t row) {
    const auto after = arrived.lower_bound(row);
    if (after->first == row) return after;
    const auto& [begin, places] = *std::prev(after);
    std::vector<std::int64_t> moved = places;
    for (std::int64_t& place : moved) place += row - begin;
    return arrived.emplace_hint(after, row, std::move(moved));
  };
  std::int64_t place = 0;
  for (const Share& share : shares)
    for (const Span& span : share.spans) {
      const auto begin = cut(span.row);
      const auto end = cut(span.row + span.rows);
      for (auto part = begin; part != end; ++part)
        part->second.push_back(place + part->first - span.row);
      place += span.rows;
    }
  for (auto part = arrived.begin(); std::next(part) != arrived.end(); ++part) {
    const std::int64_t count = std::next(part)->first - part->first;
    const bool follows = !parts.empty() && part->second.size() == 1 &&
                         parts.back().arrived.size() == 1 &&
                         parts.back().arrived[0] + parts.back().rows == part->second[0];
    if (follows)
      parts.back().rows += count;
    else
      parts.push_back({count, std::move(part->second)});
  }
}

Redistribute::Redistribute(const Edge& edge, EdgeRows rows, int tag)
    : tag_(tag),
      rank_(edge.features.to_higher->index()),
      source_(edge.source, rows.made, rank_),
      destination_(edge.destination, rows.kept, rank_),
      features_{edge.features},
      gradients_{edge.gradients} {
  check_runs(rows);
  std::erase_if(rows.runs, [](const RowRun& run) { return run.rows == 0; });
  std::ranges::sort(rows.runs, {}, [](const RowRun& run) { return std::tie(run.to, run.place); });
  check_coverage(rows);
  for (const RowRun& run : rows.runs)
    for (std::int64_t done = 0; done < run.rows;) {
      const Owner from =
          owner_of(edge.source.seats[at(run.from)], rows.made[at(run.from)], run.first + done);
      const Owner to =
          owner_of(edge.destination.seats[at(run.to)], rows.kept[at(run.to)], run.place + done);
      const std::int64_t count = std::min({run.rows - done, from.rows, to.rows});
      if (from.rank == rank_) source_.add(to.rank, {run.first + done, count});
      if (to.rank == rank_) destination_.add(from.rank, {run.place + done, count});
      done += count;
    }
  source_.cut_parts();
  destination_.cut_parts();
}

std::vector<mesh::Pending> Redistribute::post(const Side& from, Direction& direction,
                                              const at::Tensor& rows) {
  TRIB_CHECK(rows.dim() == 2 && rows.size(0) == from.rows,
             .what = "parallel: rows are not those of the seat",
             .found = tributary::str(rows.sizes()), .expected = str(from.rows, " rows"));
  const at::NoGradGuard no_grad;
  std::vector<mesh::Pending> posted;
  for (const Share& share : from.shares) {
    std::vector<at::Tensor> spans;
    for (const Span& span : share.spans) spans.push_back(rows.narrow(0, span.row, span.rows));
    const at::Tensor message = spans.size() == 1 ? spans.front().contiguous() : at::cat(spans);
    if (share.rank == rank_)
      direction.own.push_back(message);
    else
      posted.push_back(direction.link.between(rank_, share.rank).send(message, share.rank, tag_));
  }
  return posted;
}

Arriving Redistribute::await(const Side& to, const Direction& direction, std::int64_t width,
                             at::TensorOptions options) const {
  std::int64_t count = 0;
  for (const Share& share : to.shares) count += share.rows;
  Arriving arriving{at::empty({count, width}, options), {}};
  std::int64_t place = 0;
  for (const Share& share : to.shares) {
    if (share.rank != rank_)
      arriving.pending.push_back(
          direction.link.between(share.rank, rank_)
              .receive(arriving.rows.narrow(0, place, share.rows), share.rank, tag_));
    place += share.rows;
  }
  return arriving;
}

at::Tensor Redistribute::finish(const Side& to, Direction& direction, Arriving arriving) const {
  const at::NoGradGuard no_grad;
  for (mesh::Pending& message : arriving.pending) message.wait();
  const at::Tensor& arrived = arriving.rows;
  std::int64_t place = 0;
  for (const Share& share : to.shares) {
    if (share.rank == rank_) {
      TRIB_CHECK(!direction.own.empty(), .what = "parallel: rows are taken before they are sent",
                 .where = str("rank ", rank_, " of an edge, tag ", tag_));
      arrived.narrow(0, place, share.rows).copy_(direction.own.front());
      direction.own.pop_front();
    }
    place += share.rows;
  }
  std::vector<at::Tensor> parts;
  for (const Part& part : to.parts) {
    parts.push_back(part.arrived.empty()
                        ? at::zeros({part.rows, arrived.size(1)}, arrived.options())
                        : arrived.narrow(0, part.arrived[0], part.rows));
    for (std::size_t i = 1; i < part.arrived.size(); ++i)
      parts.back() = parts.back() + arrived.narrow(0, part.arrived[i], part.rows);
  }
  if (parts.size() == 1 && to.tp->is_single()) return parts.front();
  const std::int64_t ranks = to.tp ? to.tp->size() : 0;
  const at::Tensor whole = at::empty({ranks * to.height, arrived.size(1)}, arrived.options());
  at::Tensor slice = whole.narrow(0, to.slice.row, to.slice.rows);
  if (!parts.empty()) at::cat_out(slice, parts);
  if (to.tp)
    to.tp->all_gather(whole.narrow(0, to.tp->index() * to.height, to.height), whole).wait();
  return whole.narrow(0, 0, to.rows);
}

}  // namespace tributary::parallel
