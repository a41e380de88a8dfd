#include "schedule/balance/ejection_chain.h"

#include <algorithm>

namespace tributary::schedule {
namespace {

/// What is the same for all chains from one bucket.
struct Start {
  std::int32_t worst;
  std::int32_t critical;           // the dimension of its max load
  std::int64_t value;              // its max load
  std::int64_t max_room;           // max room of any bucket up to that value in that dimension
  std::vector<std::int64_t> room;  // [dimensions] max room of any bucket below that value
};

/// given: worst -> second; ejected: second -> third; returned: third -> worst, or kNowhere
struct Chain {
  std::int64_t value;  // max of the three buckets afterwards
  std::int32_t ejected = Partition::kNowhere;
  std::int32_t returned = Partition::kNowhere;
  std::int32_t third = Partition::kNowhere;
};

/// An item to eject or return, with the value that its bucket then has.
struct Candidate {
  std::int32_t item;
  std::int64_t load;  // in the critical dimension
  std::int64_t value;
};

Start describe_start(const Partition& partition, std::int32_t worst) {
  Start start = {.worst = worst,
                 .critical = partition.critical_dimension(worst),
                 .value = partition.value(worst),
                 .max_room = 0,
                 .room = std::vector<std::int64_t>(partition.dimensions())};
  for (std::int32_t bucket = 0; bucket < partition.buckets(); ++bucket) {
    for (std::int32_t d = 0; d < partition.dimensions(); ++d) {
      start.room[d] = std::max(start.room[d], start.value - 1 - partition.bucket(bucket)[d]);
    }
  }
  start.max_room = start.room[start.critical] + 1;
  return start;
}

/// Items that the bucket can take in exchange for `given`, ascending by their critical load.
std::vector<Candidate> find_returned(const Partition& partition, const Start& start,
                                     std::int32_t given, Effort& effort) {
  const std::int64_t* load = partition.item(given);
  const auto ascending = partition.ascending(start.critical);
  const std::ptrdiff_t end = partition.first_at_least(start.critical, load[start.critical]);
  const std::ptrdiff_t begin =
      partition.first_at_least(start.critical, load[start.critical] - 2 * start.max_room);
  effort.spend(end - begin);
  std::vector<Candidate> returned;
  for (std::ptrdiff_t place = begin; place < end; ++place) {
    const std::int32_t item = ascending[place];
    if (partition.bucket_of(item) == start.worst) continue;
    const std::int64_t value = value_after(partition, start.worst, partition.item(item), load);
    if (value < start.value)
      returned.push_back({item, partition.item(item)[start.critical], value});
  }
  return returned;
}

/// Items whose bucket can take `given` in exchange, ascending by their critical load.
std::vector<Candidate> find_ejected(const Partition& partition, const Start& start,
                                    std::int32_t given, Effort& effort) {
  const std::int64_t* load = partition.item(given);
  const auto ascending = partition.ascending(start.critical);
  const std::ptrdiff_t begin =
      partition.first_at_least(start.critical, load[start.critical] - start.max_room);
  const std::ptrdiff_t end =
      partition.first_at_least(start.critical, load[start.critical] + start.max_room);
  effort.spend(end - begin);
  std::vector<Candidate> ejected;
  for (std::ptrdiff_t place = begin; place < end; ++place) {
    const std::int32_t item = ascending[place];
    const std::int32_t bucket = partition.bucket_of(item);
    if (bucket == start.worst) continue;
    const std::int64_t value = value_after(partition, bucket, load, partition.item(item));
    if (value < start.value) ejected.push_back({item, partition.item(item)[start.critical], value});
  }
  return ejected;
}

/// Tries chains in which the third bucket returns nothing.
void try_open_ends(const Partition& partition, const Start& start, std::int64_t here,
                   const Candidate& ejected, Effort& effort, Chain& best) {
  const std::int64_t* load = partition.item(ejected.item);
  for (std::int32_t d = 0; d < partition.dimensions(); ++d) {
    if (load[d] > start.room[d]) return;
  }
  effort.spend(partition.buckets());
  const std::int32_t second = partition.bucket_of(ejected.item);
  for (std::int32_t third = 0; third < partition.buckets(); ++third) {
    if (third == second || third == start.worst) continue;
    const std::int64_t value =
        std::max({here, ejected.value, value_after(partition, third, load, nullptr)});
    if (value < best.value) best = {value, ejected.item, Partition::kNowhere, third};
  }
}

/// Tries chains in which the third bucket returns an item to the first.
void try_closed_ends(const Partition& partition, const Start& start, const Candidate& ejected,
                     std::span<const Candidate> returned, Effort& effort, Chain& best) {
  const std::int64_t* load = partition.item(ejected.item);
  const std::int32_t second = partition.bucket_of(ejected.item);
  const auto first = std::partition_point(
      returned.begin(), returned.end(),
      [&](const Candidate& candidate) { return candidate.load < ejected.load - start.max_room; });
  effort.spend(returned.end() - first);
  for (auto candidate = first; candidate != returned.end(); ++candidate) {
    const std::int32_t third = partition.bucket_of(candidate->item);
    if (third == second || candidate->value >= best.value) continue;
    const std::int64_t there = value_after(partition, third, load, partition.item(candidate->item));
    if (there < best.value) {
      best = {std::max({ejected.value, candidate->value, there}), ejected.item, candidate->item,
              third};
    }
  }
}

Chain find_chain(const Partition& partition, const Start& start, std::int32_t given,
                 Effort& effort) {
  Chain best = {.value = start.value};
  const std::vector<Candidate> returned = find_returned(partition, start, given, effort);
  const std::int64_t here = value_after(partition, start.worst, nullptr, partition.item(given));
  for (const Candidate& ejected : find_ejected(partition, start, given, effort)) {
    if (ejected.value >= best.value) continue;
    if (here < best.value) try_open_ends(partition, start, here, ejected, effort, best);
    try_closed_ends(partition, start, ejected, returned, effort, best);
    if (effort.used_up()) break;
  }
  return best;
}

}  // namespace

bool relieve_by_chain(Partition& partition, std::int32_t worst, Effort& effort) {
  const Start start = describe_start(partition, worst);
  for (const std::int32_t given : partition.members(worst)) {
    const Chain best = find_chain(partition, start, given, effort);
    if (best.ejected != Partition::kNowhere) {
      const std::int32_t second = partition.bucket_of(best.ejected);
      if (best.returned != Partition::kNowhere) partition.move(best.returned, worst);
      partition.move(best.ejected, best.third);
      partition.move(given, second);
      return true;
    }
    if (effort.used_up()) return false;
  }
  return false;
}

}  // namespace tributary::schedule
