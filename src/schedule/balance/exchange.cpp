#include "schedule/balance/exchange.h"

#include <algorithm>

namespace tributary::schedule {
namespace {

/// What is the same during a scan for one bucket.
struct Scan {
  const Partition& partition;
  const Tabu& tabu;
  std::int32_t worst;
  std::int32_t critical;  // the dimension of its max load
  std::int64_t max_room;  // max room of other buckets in it up to the allowed value
};

void try_moves(const Scan& scan, std::int32_t given, Exchange& best) {
  const Partition& partition = scan.partition;
  if (partition.members(scan.worst).size() < 2) return;  // no bucket may become empty
  const std::int64_t* load = partition.item(given);
  const std::int64_t left = value_after(partition, scan.worst, nullptr, load);
  if (left >= best.value) return;
  for (std::int32_t bucket = 0; bucket < partition.buckets(); ++bucket) {
    if (bucket == scan.worst) continue;
    const std::int64_t value = std::max(left, value_after(partition, bucket, load, nullptr));
    if (value < best.value && scan.tabu.allows(given, value))
      best = {value, given, Partition::kNowhere, bucket};
  }
}

/// Tries exchanges whose returned item is smaller than the given one in the critical dimension, by
/// no more than the room of the emptiest bucket.
std::int64_t try_swaps(const Scan& scan, std::int32_t given, Exchange& best) {
  const Partition& partition = scan.partition;
  const std::int64_t* load = partition.item(given);
  const auto ascending = partition.ascending(scan.critical);
  const std::int64_t max = load[scan.critical];
  const std::ptrdiff_t end = partition.first_at_least(scan.critical, max);
  const std::ptrdiff_t begin = partition.first_at_least(scan.critical, max - scan.max_room);
  for (std::ptrdiff_t place = end - 1; place >= begin; --place) {
    const std::int32_t taken = ascending[place];
    const std::int32_t bucket = partition.bucket_of(taken);
    if (bucket == scan.worst) continue;
    const std::int64_t there = value_after(partition, bucket, load, partition.item(taken));
    if (there >= best.value) continue;
    const std::int64_t here = value_after(partition, scan.worst, partition.item(taken), load);
    const std::int64_t value = std::max(here, there);
    if (value < best.value && scan.tabu.allows(given, value) && scan.tabu.allows(taken, value))
      best = {value, given, taken, bucket};
  }
  return end - begin;
}

Scan describe_scan(const Partition& partition, const Tabu& tabu, std::int32_t worst,
                   std::int64_t below) {
  const std::int32_t critical = partition.critical_dimension(worst);
  std::int64_t min = below;
  for (std::int32_t bucket = 0; bucket < partition.buckets(); ++bucket) {
    min = std::min(min, partition.bucket(bucket)[critical]);
  }
  return {partition, tabu, worst, critical, below - min};
}

}  // namespace

Exchange find_exchange(const Partition& partition, std::int32_t worst, std::int64_t below,
                       const Tabu& tabu, Effort& effort) {
  const Scan scan = describe_scan(partition, tabu, worst, below);
  Exchange best = {.value = below};
  for (const std::int32_t given : partition.members(worst)) {
    try_moves(scan, given, best);
    const std::int64_t swaps = try_swaps(scan, given, best);
    if (!effort.spend(partition.buckets() + swaps)) break;
  }
  return best;
}

void apply(Partition& partition, const Exchange& exchange) {
  if (exchange.taken != Partition::kNowhere) {
    partition.move(exchange.taken, partition.bucket_of(exchange.given));
  }
  partition.move(exchange.given, exchange.bucket);
}

}  // namespace tributary::schedule
