#include "schedule/deal_media.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/place_items.h"
#include "schedule/pass_groups.h"

namespace tributary::schedule {
namespace {

void append_media(const SampleShape& shape, Modality modality, MediaItem item, MediaRound& round) {
  item.modality = modality;
  item.place = 0;
  for (const Grid& grid : shape.grids(modality)) {
    item.grid = grid;
    round.push_back(item);
    ++item.place;
  }
}

/// The items of a round that one replica takes.
std::span<MediaItem> items_of(MediaRound& round, std::int64_t replica) {
  const auto [first, end] = std::ranges::equal_range(round, replica, {}, &MediaItem::replica);
  return {first, end};
}

std::vector<Grid> grids_of(std::span<const MediaItem> items) {
  std::vector<Grid> grids;
  for (const MediaItem& item : items) grids.push_back(item.grid);
  return grids;
}

}  // namespace

std::vector<MediaRound> list_media(std::span<const SampleShape> shapes,
                                   std::span<const PackedBins> microbatches, ModalitySet takes) {
  std::int64_t max = 0;
  for (const PackedBins& own : microbatches) max = std::max(max, own.bins());
  std::vector<MediaRound> rounds(static_cast<std::size_t>(max));
  for (std::size_t replica = 0; replica < microbatches.size(); ++replica)
    for (std::int64_t bin = 0; bin < microbatches[replica].bins(); ++bin)
      for (const Modality modality : kMediaModalities) {
        if (!takes.has(modality)) continue;
        for (const std::int32_t sample : microbatches[replica].bin(bin)) {
          MediaItem item;
          item.sample = sample;
          item.replica = static_cast<std::int32_t>(replica);
          append_media(shapes[static_cast<std::size_t>(sample)], modality, item,
                       rounds[static_cast<std::size_t>(bin)]);
        }
      }
  return rounds;
}

namespace {

/// Gives the items of a round to the seats that take their features.
void find_homes(const MediaSeats& seats, MediaRound& round) {
  for (std::int64_t replica = 0; replica < seats.takers; ++replica) {
    const std::span<MediaItem> own = items_of(round, replica);
    const std::vector<std::int64_t> homes = share_items(grids_of(own), seats.homes);
    for (std::size_t i = 0; i < own.size(); ++i) own[i].home = static_cast<std::int32_t>(homes[i]);
  }
}

/// Splits a clip evenly into groups of frames.
void append_groups(const MediaItem& clip, std::int64_t groups, MediaRound& round) {
  MediaItem part = clip;
  for (std::int64_t group = 0; group < groups; ++group) {
    part.grid.time = (group + 1) * clip.grid.time / groups - group * clip.grid.time / groups;
    round.push_back(part);
    part.first_frame += part.grid.time;
  }
}

/// Splits the clips of a round that cost more than `max`, or fill more than half of a pass.
void split_clips(const MediaSeats& seats, const MediaCost& cost, std::int64_t max,
                 MediaRound& round) {
  const auto parts = [](std::int64_t size, std::int64_t of_part) {
    return of_part > 0 ? (size + of_part - 1) / of_part : 1;
  };
  const MediaRound whole = std::move(round);
  round.clear();
  for (const MediaItem& item : whole) {
    const std::int64_t groups =
        std::max(parts(cost(item.grid), max), parts(2 * item.grid.patches(), seats.capacity));
    append_groups(item, std::clamp<std::int64_t>(groups, 1, item.grid.time), round);
  }
}

/// Half of what a seat has on average of these rounds.
std::int64_t half_of_a_seat(const MediaSeats& seats, const MediaCost& cost,
                            std::span<const MediaRound> rounds) {
  std::int64_t all = 0;
  for (const MediaRound& round : rounds)
    for (const MediaItem& item : round) all += cost(item.grid);
  return all / (2 * seats.replicas * seats.seats);
}

/// The seats from which an item's features have the shortest way: those on the ranks of its home
/// or, of a separate encoder with as many replicas as the backbone, those of its replica's number.
PlaceRange near_seats(const MediaSeats& seats, const MediaItem& item) {
  if (seats.home_ranks == 0) {
    if (seats.replicas != seats.takers) return {};
    return {item.replica * seats.seats, (item.replica + 1) * seats.seats};
  }
  const std::int64_t first = (item.replica * seats.homes + item.home) * seats.home_ranks;
  return {first / seats.seat_ranks, (first + seats.home_ranks - 1) / seats.seat_ranks + 1};
}

/// Dispatches items to seats, each with the capacity of a pass, and adds them to the loads.
/// shape: returns the seat of each item
std::vector<std::int64_t> dispatch(const MediaSeats& seats, const MediaCost& cost,
                                   std::span<MediaItem* const> items,
                                   std::vector<std::int64_t>& loads) {
  if (seats.capacity == 0) {
    std::vector<std::int64_t> costs;
    std::vector<PlaceRange> near;
    for (const MediaItem* item : items) {
      costs.push_back(cost(item->grid));
      near.push_back(near_seats(seats, *item));
    }
    return place_near(costs, near, loads);
  }
  std::vector<TimeAndRoom> sizes;
  for (const MediaItem* item : items) sizes.push_back({cost(item->grid), item->grid.patches()});
  std::vector<TimeAndRoom> places;
  for (const std::int64_t time : loads) places.push_back({.time = time});
  const std::vector<std::int64_t> place_of = place_items(sizes, seats.capacity, places);
  std::ranges::transform(places, loads.begin(), &TimeAndRoom::time);
  return place_of;
}

std::vector<MediaItem*> items_of_rounds(std::span<MediaRound> rounds) {
  std::vector<MediaItem*> items;
  for (MediaRound& round : rounds)
    for (MediaItem& item : round) items.push_back(&item);
  return items;
}

/// Splits the clips of rounds that are dispatched together.
void split_clips_of(const MediaSeats& seats, const MediaCost& cost, std::span<MediaRound> rounds) {
  const std::int64_t max = half_of_a_seat(seats, cost, rounds);
  for (MediaRound& round : rounds)
    if (seats.splits_frames) split_clips(seats, cost, max, round);
}

/// Dispatches the items of rounds to seats.
void deal_to_seats(const MediaSeats& seats, const MediaCost& cost, std::span<MediaRound> rounds,
                   std::vector<std::int64_t>& loads) {
  const std::vector<MediaItem*> items = items_of_rounds(rounds);
  const std::vector<std::int64_t> seat_of = dispatch(seats, cost, items, loads);
  for (std::size_t i = 0; i < items.size(); ++i)
    items[i]->seat = static_cast<std::int32_t>(seat_of[i]);
}

/// Dispatches the rounds of a separate encoder.
void deal_rounds(const MediaSeats& seats, const MediaCost& cost, std::vector<MediaRound>& rounds) {
  std::vector<std::int64_t> loads(static_cast<std::size_t>(seats.replicas * seats.seats));
  std::int32_t pass = 0;
  for (MediaRound& round : rounds) {
    const std::span<MediaRound> alone(&round, 1);
    split_clips_of(seats, cost, alone);
    deal_to_seats(seats, cost, alone, loads);
    for (MediaItem& item : round) item.pass = pass;
    ++pass;
  }
}

/// Dispatches the items of a step to a colocated encoder.
void deal_step(const MediaSeats& seats, const MediaCost& cost, std::vector<MediaRound>& rounds) {
  const PassGroups groups(seats.passes, std::ssize(rounds));
  std::vector<std::int64_t> loads(static_cast<std::size_t>(seats.replicas * seats.seats));
  // Memory is that of a pass: with a limit to it each pass is dispatched by itself.
  const bool levels_passes = seats.levels_passes || seats.capacity > 0;
  if (!levels_passes) {
    split_clips_of(seats, cost, rounds);
    deal_to_seats(seats, cost, rounds, loads);
  }
  for (std::int64_t pass = 0; pass < groups.passes && !rounds.empty(); ++pass) {
    const auto first = static_cast<std::size_t>(groups.first_of(pass));
    const auto end = static_cast<std::size_t>(groups.first_of(pass + 1));
    const std::span<MediaRound> own = std::span(rounds).subspan(first, end - first);
    if (levels_passes) {
      split_clips_of(seats, cost, own);
      deal_to_seats(seats, cost, own, loads);
    }
    for (MediaRound& round : own)
      for (MediaItem& item : round) item.pass = static_cast<std::int32_t>(pass);
  }
}

}  // namespace

MediaSeats seats_of(const config::MeshShape& encoder, const config::MeshShape& backbone,
                    std::int64_t passes, bool takes_turns) {
  const auto replicas = [](const config::MeshShape& mesh) {
    return mesh.dp_replicate * mesh.dp_shard;
  };
  const auto sequence = [](const config::MeshShape& mesh) { return mesh.cp * mesh.ulysses; };
  return {.splits_frames = true,  // no patch of a tower ever meets one of another frame
          .passes = passes,
          .levels_passes = takes_turns,
          .replicas = replicas(encoder),
          .seats = sequence(encoder),
          .takers = replicas(backbone),
          .homes = sequence(backbone),
          .home_ranks = passes > 0 ? backbone.tp : 0,
          .seat_ranks = passes > 0 ? encoder.tp : 0};
}

void deal_media(const MediaSeats& seats, const MediaCost& cost, std::vector<MediaRound>& rounds) {
  for (MediaRound& round : rounds) find_homes(seats, round);
  if (seats.passes > 0)
    deal_step(seats, cost, rounds);
  else
    deal_rounds(seats, cost, rounds);
}

std::optional<std::int32_t> keep_seats(std::span<const MediaRound> before,
                                       std::span<MediaRound> rounds) {
  const auto key_of = [](const MediaItem& item) {
    return std::tuple(item.sample, item.modality, item.place);
  };
  std::map<std::tuple<std::int32_t, Modality, std::int32_t>, std::int32_t> seat_of;
  for (const MediaRound& round : before)
    for (const MediaItem& item : round) seat_of.emplace(key_of(item), item.seat);
  for (MediaRound& round : rounds)
    for (MediaItem& item : round) {
      auto seat = seat_of.find(key_of(item));
      if (seat == seat_of.end()) seat = seat_of.lower_bound({item.sample, Modality{}, 0});
      if (seat == seat_of.end() || std::get<0>(seat->first) != item.sample) return item.sample;
      item.seat = seat->second;
    }
  return std::nullopt;
}

}  // namespace tributary::schedule
