#include "studies/methods/interleaved/interleaved_batch.h"

#include <algorithm>
#include <numeric>

namespace tributary::studies {

InterleavedBatch::InterleavedBatch(BatchRunner& runner, std::size_t batch, const Degrees& degrees,
                                   std::int64_t rounds, std::int64_t multiple, Deal how)
    : runner_(runner), degrees_(degrees) {
  const Buckets& buckets = runner.deal(batch, degrees.dp, rounds, how, degrees, degrees);
  rounds_ = (buckets.rounds + multiple - 1) / multiple * multiple;
  encoder_ = runner.encoder_seconds(degrees.tp, buckets);
  backbone_ = runner.backbone_seconds(degrees.tp, buckets);
  encoder_.resize(static_cast<std::size_t>(rounds_ * degrees.dp));
  backbone_.resize(encoder_.size());
  const Problem3d& costs = runner.problem().costs;
  sync_ = std::max(runner.sync_seconds(costs.encoder, degrees, rounds),
                   runner.sync_seconds(costs.backbone, degrees, rounds));
}

double InterleavedBatch::min_seconds(std::span<const StageShare> shares) const {
  std::vector<StageShare> stages(static_cast<std::size_t>(degrees_.pp));
  for (std::size_t at = 0; at < shares.size(); ++at) {
    stages[at % stages.size()].encoder += shares[at].encoder;
    stages[at % stages.size()].backbone += shares[at].backbone;
  }
  double max = 0;
  for (std::int64_t replica = 0; replica < degrees_.dp; ++replica) {
    double encoder = 0;
    double backbone = 0;
    for (std::int64_t round = 0; round < rounds_; ++round) {
      encoder += encoder_[at(replica, round)];
      backbone += backbone_[at(replica, round)];
    }
    for (const StageShare& share : stages)
      max = std::max(max, share.encoder * encoder + share.backbone * backbone);
  }
  return max + sync_;
}

std::vector<PassSeconds> InterleavedBatch::times(std::int64_t replica,
                                                 std::span<const StageShare> shares) const {
  std::vector<PassSeconds> times;
  times.reserve(shares.size() * static_cast<std::size_t>(rounds_));
  for (const StageShare& share : shares) {
    for (std::int64_t round = 0; round < rounds_; ++round) {
      const std::size_t bucket = at(replica, round);
      times.push_back(runner_.split_encoder(share.encoder * encoder_[bucket]) +
                      runner_.split_backbone(share.backbone * backbone_[bucket]));
    }
  }
  return times;
}

std::vector<std::int64_t> InterleavedBatch::passes(std::int64_t replica,
                                                   std::span<const StageShare> shares) const {
  const std::vector<PassSeconds> times = this->times(replica, shares);
  std::vector<std::int64_t> passes;
  passes.reserve(2 * times.size());
  for (const PassSeconds& each : times) passes.push_back(to_nanoseconds(each.forward).count);
  for (const PassSeconds& each : times) passes.push_back(to_nanoseconds(each.backward).count);
  return passes;
}

std::vector<double> InterleavedBatch::encoder_rounds(std::int64_t replica) const {
  std::vector<double> seconds;
  for (std::int64_t round = 0; round < rounds_; ++round)
    seconds.push_back(encoder_[at(replica, round)]);
  return seconds;
}

std::vector<double> InterleavedBatch::backbone_rounds(std::int64_t replica) const {
  std::vector<double> seconds;
  for (std::int64_t round = 0; round < rounds_; ++round)
    seconds.push_back(backbone_[at(replica, round)]);
  return seconds;
}

double InterleavedBatch::busy() const {
  const double seconds = std::accumulate(encoder_.begin(), encoder_.end(), 0.0) +
                         std::accumulate(backbone_.begin(), backbone_.end(), 0.0);
  return seconds * static_cast<double>(degrees_.tp);
}

}  // namespace tributary::studies
