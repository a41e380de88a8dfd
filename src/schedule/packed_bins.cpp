#include "schedule/packed_bins.h"

#include "core/error.h"

namespace tributary::schedule {

PackingFill measure_fill(const PackedBins& packed, std::span<const Tokens> lengths,
                         Tokens capacity) {
  PackingFill fill;
  fill.bins = packed.bins();
  for (const std::int32_t item : packed.items) fill.tokens += lengths[item];
  const Tokens room = capacity * fill.bins;
  fill.padding = room - fill.tokens;
  fill.share = fill.bins == 0 ? 1.0 : double(fill.tokens.count) / double(room.count);
  return fill;
}

void check_lengths(std::span<const Tokens> lengths, Tokens capacity) {
  TRIB_REQUIRE(Tokens{1} <= capacity && capacity <= kMaxCapacity,
               .what = "schedule: packing capacity out of range", .found = str(capacity),
               .expected = str("1 to ", kMaxCapacity));
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    TRIB_REQUIRE(Tokens{1} <= lengths[i] && lengths[i] <= capacity,
                 .what = "schedule: sample does not fit into a bin", .where = str("item ", i),
                 .found = str(lengths[i]), .expected = str("1 to ", capacity),
                 .fix = "raise batch.capacity_tokens or drop the sample");
  }
}

}  // namespace tributary::schedule
