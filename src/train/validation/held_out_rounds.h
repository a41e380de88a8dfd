#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "train/executor/collate.h"
#include "train/executor/encode_apart.h"
#include "train/start/session.h"

namespace tributary::train {

/// Held-out samples of one source that the replicas score at the same time.
struct HeldOutRound {
  std::vector<std::vector<std::int64_t>>
      positions;  // [replicas], ascending; a replica may have none

  friend bool operator==(const HeldOutRound&, const HeldOutRound&) = default;
};

/// Measures the first samples of a source: tokens of each; 0: its text or a header is bad, for the
/// rank that looked.
///
/// shape: returns [samples], the same on every rank
/// cost:  every rank looks at a part of them
/// collective: over all ranks
[[nodiscard]] std::vector<std::int64_t> measure_held_out(const Session& session, int source,
                                                         std::int64_t samples);

/// Dispatches samples to replicas: each in turn to the one with the fewest tokens in the round (the
/// lowest among equals), until the next would not fit into its `capacity`. A sample of 0 tokens is
/// left out; one above the capacity is the only sample of its replica in a round.
[[nodiscard]] std::vector<HeldOutRound> deal_rounds(std::span<const std::int64_t> tokens,
                                                    std::int64_t replicas, std::int64_t capacity);

/// A held-out sample, and its place in the source.
struct Question {
  std::int64_t position = 0;
  data::HeldOutSample held_out = {};                  // without pictures
  std::vector<data::PictureSize> picture_sizes = {};  // as decoded
};

/// What a rank holds of a round.
struct RoundPart {
  std::vector<Question> questions;                             // of its replica, by position
  std::map<std::int64_t, std::vector<data::Picture>> decoded;  // by position: what it has read
  std::map<std::int64_t, int> readers;                         // by position: ranks
  ForwardMedia media = {};  // where encoders have ranks of their own
};

/// Reads a round: each sample by one rank, which passes it on. A sample that its reader refuses is
/// left out.
///
/// collective: over all ranks
[[nodiscard]] RoundPart read_round(const Session& session, int source, const HeldOutRound& round);

/// The samples of this rank's replica as one batch with their targets; an idle one without samples.
/// Session and part must outlive it.
[[nodiscard]] Microbatch collate_round(const Session& session, const RoundPart& part);

/// A question whose pictures are kept.
struct KeptQuestion {
  std::int64_t position = 0;
  std::vector<data::PictureSize> sizes;
};

/// Brings pictures of a round to rank 0, from the ranks that decoded them.
///
/// shape: `kept` is the same on all ranks -> returns the pictures of each on rank 0, else nothing
/// collective: over all ranks
[[nodiscard]] std::vector<std::vector<data::Picture>> collect_pictures(
    const mesh::Group& world, const std::vector<KeptQuestion>& kept, const RoundPart& part);

}  // namespace tributary::train
