#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "config/run/mesh_shape.h"
#include "core/sample_shape.h"
#include "schedule/packed_bins.h"

namespace tributary::schedule {

/// An image, a sound, a clip or frames of one in a microbatch, the rank that encodes it and the one
/// that takes its features. A seat is a rank that encodes, or takes, items of its own; its tp ranks
/// do the same.
struct MediaItem {
  std::int32_t sample = 0;  // in the global batch
  std::int32_t place = 0;   // among the items of its modality in the sample
  Modality modality = Modality::kImage;
  Grid grid;                     // of these frames
  std::int64_t first_frame = 0;  // in steps of the clip's grid
  std::int32_t replica = 0;      // of the backbone, which takes its features
  std::int32_t home = 0;         // seat of that replica
  std::int32_t seat = 0;         // of the encoder
  std::int32_t pass = 0;         // of that seat

  friend bool operator==(const MediaItem&, const MediaItem&) = default;
};

/// The media of the microbatches of one index on all replicas: replica after replica, of each the
/// images of all its samples, then the clips, or its sounds.
using MediaRound = std::vector<MediaItem>;

/// Lists the media of a step that one encoder takes.
/// shape: shapes [samples of the global batch], microbatches [replicas] bins of indices of them ->
///        returns a round for each microbatch of the longest replica
[[nodiscard]] std::vector<MediaRound> list_media(std::span<const SampleShape> shapes,
                                                 std::span<const PackedBins> microbatches,
                                                 ModalitySet takes);

/// The seats of the two modules between which features go.
struct MediaSeats {
  bool splits_frames = false;   // frames of a clip can be encoded apart from each other
  std::int64_t passes = 0;      // of a colocated encoder in a step; 0: one for each round
  bool levels_passes = false;   // each of them has level seats, else the whole step has
  std::int64_t replicas = 1;    // of the encoder
  std::int64_t seats = 1;       // of each of them
  std::int64_t takers = 1;      // replicas of the backbone
  std::int64_t homes = 1;       // seats of each of them
  std::int64_t home_ranks = 0;  // of a home, in whose order the seats lie where the encoder is
  std::int64_t seat_ranks = 0;  // colocated, and of a seat; 0: it has ranks of its own
  std::int64_t capacity = 0;    // patches that a seat holds in one pass; 0: as many as come
};

/// The seats of an encoder with a mesh of its own, and those of the backbone.
/// passes: of a colocated encoder, which may take turns with the backbone; 0: it has ranks of its
///         own
[[nodiscard]] MediaSeats seats_of(const config::MeshShape& encoder,
                                  const config::MeshShape& backbone, std::int64_t passes,
                                  bool takes_turns);

/// Gives every item its home, its seat and its pass. Homes share the items of a replica by
/// share_items.
///
/// Where frames may be apart, a clip that costs more than half of what a seat has on average is
/// first split into groups of frames; its home keeps all of them, in their order.
///
/// A separate encoder encodes a round in one pass: the items of each round are dispatched to all
/// its seats, the costliest first, each to the seat with the least cost so far in this step. A
/// colocated encoder takes the items of consecutive rounds in each of its passes (PassGroups). They
/// are dispatched to its seats likewise, pass by pass, or all of the step at once where memory has
/// no limit. Where that makes no seat later (place_near), an item of a colocated encoder stays on
/// the ranks of its home, so that its features need no message, and one of a separate encoder with
/// as many replicas as the backbone at the replica of the same number, so that few ranks exchange.
///
/// With a capacity, memory counts beside time: the costliest is the item that is the larger
/// fraction of the mean cost of a seat or of the capacity, and it goes where the larger of the two
/// is then least, as place_items does. Clips of more than half the capacity are split too. A pass
/// holds more than the capacity only where the others have no room either.
///
/// units: `cost` of an item, at least 0; equal ones go in their order to the lowest seat
using MediaCost = std::function<std::int64_t(const Grid&)>;
void deal_media(const MediaSeats& seats, const MediaCost& cost, std::vector<MediaRound>& rounds);

/// Gives the items of `rounds` the seats that they had in `before`, where the rows of their samples
/// are; an item that was not there goes to the first seat of its sample. Returns a sample that had
/// no seat at all; null: there is none.
[[nodiscard]] std::optional<std::int32_t> keep_seats(std::span<const MediaRound> before,
                                                     std::span<MediaRound> rounds);

}  // namespace tributary::schedule
