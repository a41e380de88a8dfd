#include "schedule/pack.h"

#include <numeric>

#include "core/error.h"
#include "schedule/pack_decreasing.h"
#include "schedule/pack_online.h"

namespace tributary::schedule {
namespace {

PackedBins keep_apart(std::span<const Tokens> lengths, Tokens capacity) {
  check_lengths(lengths, capacity);
  PackedBins packed = {.first = std::vector<std::int32_t>(lengths.size() + 1),
                       .items = std::vector<std::int32_t>(lengths.size())};
  std::iota(packed.first.begin(), packed.first.end(), 0);
  std::iota(packed.items.begin(), packed.items.end(), 0);
  return packed;
}

}  // namespace

PackedBins pack(config::Packing rule, std::span<const Tokens> lengths, Tokens capacity) {
  switch (rule) {
    case config::Packing::kNone:
      return keep_apart(lengths, capacity);
    case config::Packing::kOnlineBestFit:
      return pack_online(lengths, capacity);
    case config::Packing::kBestFitDecreasing:
      return pack_decreasing(lengths, capacity);
  }
  TRIB_RAISE(Fault::kBug, .what = "schedule: packing rule without a function",
             .found = str(static_cast<int>(rule)));
}

}  // namespace tributary::schedule
