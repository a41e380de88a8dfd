#include "schedule/correct_costs/predicted_batch.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace tributary::schedule {
namespace {

/// The shares of one pass, added up by key.
using Shares = std::map<CostKey, Nanoseconds>;

void add_share(const PredictedShare& share, double scale, Shares& shares) {
  if (share.time.count > 0) shares[share.key] += scale_time(share.time, scale);
}

bool is_apart(const PredictedBatch& batch, std::size_t chain) {
  return std::ranges::find(batch.encoders, static_cast<std::int32_t>(chain),
                           &EncoderBatch::chain) != batch.encoders.end();
}

/// What replicas of the backbone predict, by replica and microbatch.
std::map<std::int64_t, std::vector<Shares>> shares_of_backbone(const PredictedBatch& batch,
                                                               double scale) {
  std::map<std::int64_t, std::vector<Shares>> shares;
  for (std::size_t replica = 0; replica < batch.plan.microbatches.size(); ++replica) {
    const PackedBins& bins = batch.plan.microbatches[replica];
    std::vector<Shares>& own = shares[static_cast<std::int64_t>(replica)];
    own.resize(static_cast<std::size_t>(bins.bins()));
    for (std::int64_t bin = 0; bin < bins.bins(); ++bin)
      for (const std::int32_t place : bins.bin(bin))
        for (std::size_t chain = 0; chain < batch.chains; ++chain)
          if (!is_apart(batch, chain))
            add_share(batch.shares[static_cast<std::size_t>(place) * batch.chains + chain], scale,
                      own[static_cast<std::size_t>(bin)]);
  }
  return shares;
}

/// What an encoder predicts, by seat and pass.
std::map<std::int64_t, std::vector<Shares>> shares_of_encoder(const EncoderBatch& encoder,
                                                              double scale) {
  std::map<std::int64_t, std::vector<Shares>> shares;
  for (const EncodedShare& item : encoder.used) {
    std::vector<Shares>& own = shares[item.seat];
    own.resize(std::max(own.size(), static_cast<std::size_t>(item.pass) + 1));
    add_share(item.share, scale, own[static_cast<std::size_t>(item.pass)]);
  }
  return shares;
}

/// The largest bucket of some items.
class Buckets {
 public:
  Buckets(const CostCorrector& corrector, const CostScales& scales, std::int64_t buckets)
      : corrector_(corrector), scales_(scales), buckets_(buckets) {}
  void add(PredictedShare share, std::int32_t bucket) {
    share.time = scale_time(share.time, scales_.of(share.key.module));
    items_.push_back(share);
    bucket_of_.push_back(bucket);
  }
  [[nodiscard]] Nanoseconds largest() const {
    return judge_arrangement(corrector_, items_, /*dimensions=*/1, bucket_of_, buckets_);
  }

 private:
  const CostCorrector& corrector_;
  const CostScales& scales_;
  std::int64_t buckets_;
  std::vector<PredictedShare> items_;
  std::vector<std::int32_t> bucket_of_;
};

}  // namespace

double CostScales::of(std::int32_t chain) const {
  const auto encoder = encoders.find(chain);
  return encoder == encoders.end() || encoder->second == 0 ? backbone : encoder->second;
}

PredictedShare share_of(std::int32_t chain, std::int64_t rows, Nanoseconds time) {
  return {.key = {.module = chain, .size = quarter_octave(rows)}, .time = time};
}

Nanoseconds scale_time(Nanoseconds time, double scale) {
  return {std::llround(static_cast<double>(time.count) * scale)};
}

Nanoseconds from_seconds(double seconds) {
  return {std::max<std::int64_t>(1, std::llround(seconds * 1e9))};
}

std::vector<MeasuredBucket> list_buckets(const PredictedBatch& batch,
                                         std::span<const MeasuredPart> parts, std::int32_t encoder,
                                         double scale) {
  const auto predicted =
      encoder < 0 ? shares_of_backbone(batch, scale)
                  : shares_of_encoder(batch.encoders.at(static_cast<std::size_t>(encoder)), scale);
  std::map<std::int64_t, std::vector<double>> seconds;
  std::set<std::int64_t> others;  // places that ran something else
  for (const MeasuredPart& part : parts) {
    const auto own = predicted.find(part.place);
    if (part.encoder != encoder || own == predicted.end()) continue;
    std::vector<double>& sums = seconds[part.place];
    sums.resize(own->second.size());
    if (!part.as_planned || part.passes.size() < sums.size()) others.insert(part.place);
    for (std::size_t pass = 0; pass < std::min(part.passes.size(), sums.size()); ++pass)
      sums[pass] += part.passes[pass];
  }
  std::vector<MeasuredBucket> buckets;
  for (const auto& [place, sums] : seconds) {
    if (others.contains(place)) continue;
    for (std::size_t pass = 0; pass < sums.size(); ++pass) {
      const Shares& shares = predicted.at(place)[pass];
      if (shares.empty()) continue;
      MeasuredBucket& bucket = buckets.emplace_back();
      bucket.time = from_seconds(sums[pass]);
      for (const auto& [key, time] : shares) bucket.shares.push_back({key, time});
    }
  }
  return buckets;
}

Nanoseconds judge_step(const CostCorrector& corrector, const PredictedBatch& batch,
                       Arrangement arrangement, const CostScales& scales) {
  const bool is_used = arrangement == Arrangement::kUsed;
  const std::vector<std::int32_t>& replica_of =
      is_used ? batch.plan.replica_of : batch.replica_without;
  Buckets replicas(corrector, scales, std::ssize(batch.plan.microbatches));
  for (std::size_t i = 0; i < batch.shares.size(); ++i)
    if (!is_apart(batch, i % batch.chains))
      replicas.add(batch.shares[i], replica_of[i / batch.chains]);
  Nanoseconds together = replicas.largest();
  Nanoseconds apart;
  for (const EncoderBatch& encoder : batch.encoders) {
    Buckets seats(corrector, scales, encoder.seats);
    for (const EncodedShare& item : is_used ? encoder.used : encoder.without)
      seats.add(item.share, item.seat);
    if (encoder.is_colocated)
      together += seats.largest();
    else
      apart = std::max(apart, seats.largest());
  }
  return std::max(together, apart);
}

}  // namespace tributary::schedule
