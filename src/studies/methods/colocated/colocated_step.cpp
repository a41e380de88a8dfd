#include "studies/methods/colocated/colocated_step.h"

#include <algorithm>

#include "core/text.h"
#include "studies/methods/plan_space.h"

namespace tributary::studies {
namespace {

std::vector<double> tokens_of(const Buckets& buckets) {
  std::vector<double> tokens;
  for (const SampleWork& work : buckets.work) tokens.push_back(work.tokens);
  return tokens;
}

}  // namespace

PassSeconds ColocatedStep::stage(const Buckets& buckets, int stage, std::int64_t replica,
                                 std::int64_t round) const {
  const ModuleCosts& module = runner_.problem().costs.backbone;
  const double share =
      double(layers_of_stage(module.layers, backbone_.pp, stage)) / double(module.layers);
  return runner_.split_backbone(
      share *
      runner_.backbone_seconds(backbone_.tp, buckets.work[buckets.at(replica, round)].tokens));
}

std::vector<PassSeconds> ColocatedStep::times_of(const Buckets& buckets,
                                                 std::int64_t replica) const {
  std::vector<double> tokens;
  for (std::int64_t round = 0; round < buckets.rounds; ++round)
    tokens.push_back(buckets.work[buckets.at(replica, round)].tokens);
  return times_of(tokens);
}

std::vector<PassSeconds> ColocatedStep::times_of(std::span<const double> tokens) const {
  const ModuleCosts& module = runner_.problem().costs.backbone;
  std::vector<double> whole;
  for (const double mine : tokens) whole.push_back(runner_.backbone_seconds(backbone_.tp, mine));
  std::vector<PassSeconds> times;
  for (std::int64_t stage = 0; stage < backbone_.pp; ++stage) {
    const double share =
        double(layers_of_stage(module.layers, backbone_.pp, stage)) / double(module.layers);
    for (const double seconds : whole) times.push_back(runner_.split_backbone(share * seconds));
  }
  return times;
}

void ColocatedStep::add_busy(std::span<const PassSeconds> times) {
  for (const auto& [forward, backward] : times)
    runner_.add_busy((forward + backward) * static_cast<double>(backbone_.tp));
}

double ColocatedStep::pipeline(std::span<const PassSeconds> times) {
  add_busy(times);
  return time_1f1b(static_cast<int>(backbone_.pp), times);
}

double ColocatedStep::run_on_first_stage(std::size_t batch, Deal how, std::int64_t tp,
                                         const EncoderCost& encoder) {
  const Degrees copies = {tp, 1, backbone_.dp * backbone_.tp / tp};
  const Buckets& buckets = deal(batch, how, copies);
  const auto cost = [&](int stage, std::int64_t replica, std::int64_t round) {
    const PassSeconds times = this->stage(buckets, stage, replica, round);
    runner_.add_busy((times.forward + times.backward) * static_cast<double>(backbone_.tp));
    if (stage > 0) return times;
    return times + encoder(buckets, replica, round);
  };
  // Encoders count their own work: some ranks may work for less time than the stage takes.
  return runner_.run_pipelines(
             static_cast<int>(backbone_.pp), buckets, [](int) { return std::int64_t{0}; }, cost) +
         sync(copies);
}

PassSeconds ColocatedStep::encode_in_groups(const Buckets& buckets, std::int64_t replica,
                                            std::int64_t round, std::int64_t tp) {
  const std::int64_t groups = backbone_.tp / tp;
  const auto times_of = [&](std::int64_t member) {
    return runner_.split_encoder(
        runner_.encoder_seconds(tp, buckets.work[buckets.at(replica, member)].tiles));
  };
  const PassSeconds own = times_of(round);
  runner_.add_busy((own.forward + own.backward) * static_cast<double>(tp));
  PassSeconds times = {0, own.backward};
  if (round % groups != 0) return times;
  const std::int64_t end = std::min(round + groups, buckets.rounds);
  for (std::int64_t member = round; member < end; ++member)
    times.forward = std::max(times.forward, times_of(member).forward);
  return times;
}

double ColocatedStep::phase(std::size_t batch, const Buckets& buckets, std::int64_t replica,
                            std::int64_t tp) const {
  std::vector<std::int32_t> samples;
  for (std::int64_t round = 0; round < buckets.rounds; ++round) {
    const std::vector<std::int32_t>& mine = buckets.samples[buckets.at(replica, round)];
    samples.insert(samples.end(), mine.begin(), mine.end());
  }
  return runner_.encoder_phase(batch, samples, tp, backbone_.tp * backbone_.pp / tp,
                               Deal::kBalanced);
}

double ColocatedStep::run_in_phases(std::size_t batch) {
  const Buckets& buckets = deal(batch, Deal::kInOrder);
  double slowest = 0;
  for (std::int64_t replica = 0; replica < backbone_.dp; ++replica) {
    double tiles = 0;
    for (std::int64_t round = 0; round < buckets.rounds; ++round) {
      tiles += buckets.work[buckets.at(replica, round)].tiles;
    }
    slowest =
        std::max(slowest, phase(batch, buckets, replica, 1) +
                              2 * runner_.feature_seconds(tiles, backbone_.tp * backbone_.pp) +
                              pipeline(times_of(buckets, replica)));
  }
  return slowest + sync(copies_of(1));
}

double ColocatedStep::run_in_balanced_phases(std::size_t batch, std::int64_t tp,
                                             std::int64_t groups, double limit) {
  const std::vector<SampleWork>& samples = runner_.problem().batches[batch];
  const std::int64_t replicas = backbone_.dp / groups;
  const std::int64_t devices = backbone_.devices() / groups;
  const double end = limit - sync(copies_of(tp));
  double slowest = 0;
  for (std::int64_t group = 0; group < groups && slowest < end; ++group) {
    std::vector<double> tiles;
    std::vector<double> tokens;
    for (std::size_t sample = static_cast<std::size_t>(group); sample < samples.size();
         sample += static_cast<std::size_t>(groups)) {
      tiles.push_back(samples[sample].tiles);
      tokens.push_back(samples[sample].tokens);
    }
    const double moved = runner_.exchange_seconds(tiles, devices);
    const double encoder =
        runner_.encoder_phase(deal_out(std::move(tiles), devices / tp, Deal::kBalanced), tp);
    if (groups == 1)
      tokens = tokens_of(deal(batch, Deal::kByTokens));
    else
      tokens = deal_out(std::move(tokens), replicas * rounds_, Deal::kBalanced);
    tokens.resize(static_cast<std::size_t>(replicas * rounds_));
    for (std::int64_t replica = 0; replica < replicas && slowest < end; ++replica) {
      std::vector<double> mine;
      for (std::int64_t round = 0; round < rounds_; ++round)
        mine.push_back(tokens[static_cast<std::size_t>(round * replicas + replica)]);
      slowest = std::max(slowest, encoder + 2 * moved + pipeline(times_of(mine)));
    }
  }
  return slowest + sync(copies_of(tp));
}

double ColocatedStep::run_in_bubbles(std::size_t batch, std::int64_t tp, Deal how) {
  const Buckets& buckets = deal(batch, how, copies_of(tp));
  double slowest = 0;
  for (std::int64_t replica = 0; replica < backbone_.dp; ++replica) {
    const double work = phase(batch, buckets, replica, tp);
    const std::vector<PassSeconds> times = times_of(buckets, replica);
    double over = 0;
    for (const double idle : idle_in_1f1b(static_cast<int>(backbone_.pp), times))
      over = std::max(over, work - idle);
    // Its work is counted with the phase.
    const DeviceSeconds counted = runner_.take_counted();
    const double first = runner_.encoder_phase(batch, buckets.samples[buckets.at(replica, 0)], tp,
                                               backbone_.tp * backbone_.pp / tp, Deal::kBalanced);
    (void)runner_.take_counted();
    runner_.add(counted);
    slowest =
        std::max(slowest, pipeline(times) + std::max(over, runner_.split_encoder(first).forward));
  }
  return slowest + sync(copies_of(tp));
}

double ColocatedStep::run_nested(std::size_t batch, std::int64_t tp, Deal how, double limit) {
  const Buckets& buckets = deal(batch, how, copies_of(tp));
  const std::vector<SampleWork>& samples = runner_.problem().batches[batch];
  const std::int64_t of_stage = backbone_.tp / tp;  // groups of ranks
  const double end = limit - sync(copies_of(tp));
  double slowest = 0;
  for (std::int64_t replica = 0; replica < backbone_.dp && slowest < end; ++replica) {
    std::vector<PassSeconds> encoder(static_cast<std::size_t>(backbone_.pp * buckets.rounds));
    for (std::int64_t round = 0; round < buckets.rounds; ++round) {
      std::vector<double> tiles;
      for (const std::int32_t sample : buckets.samples[buckets.at(replica, round)])
        tiles.push_back(samples[sample].tiles);
      tiles = deal_out(std::move(tiles), backbone_.pp * of_stage, Deal::kBalanced);
      for (std::size_t group = 0; group < tiles.size(); ++group) {
        const double seconds = runner_.encoder_seconds(tp, tiles[group]);
        runner_.add_busy(seconds * static_cast<double>(tp));
        const std::size_t stage = group % static_cast<std::size_t>(backbone_.pp);
        PassSeconds& slot = encoder[stage * static_cast<std::size_t>(buckets.rounds) +
                                    static_cast<std::size_t>(round)];
        const PassSeconds mine = runner_.split_encoder(seconds);
        slot = {std::max(slot.forward, mine.forward), std::max(slot.backward, mine.backward)};
      }
    }
    const std::vector<PassSeconds> times = times_of(buckets, replica);
    add_busy(times);
    slowest = std::max(slowest, time_nested_1f1b(static_cast<int>(backbone_.pp), times, encoder));
  }
  return slowest + sync(copies_of(tp));
}

double ColocatedStep::sync(const Degrees& copies) const {
  const Problem3d& costs = runner_.problem().costs;
  return std::max(runner_.sync_seconds(costs.backbone, backbone_, rounds_),
                  runner_.sync_seconds(costs.encoder, copies, 1));
}

double colocated_bytes(const TrainingProblem& problem, const Degrees& backbone, std::int64_t rounds,
                       std::int64_t tp, double depth, double samples) {
  // Every rank holds a part of a copy.
  const Degrees encoder = {tp, 1, std::max<std::int64_t>(backbone.devices() / tp, 1)};
  return backbone_bytes(problem, backbone, rounds) +
         encoder_bytes(problem, encoder, depth, samples);
}

std::string describe_colocated(const Degrees& backbone, std::int64_t rounds, std::int64_t tp) {
  return str(to_text(backbone), ", ", microbatches_text(rounds), ", encoder tp ", tp);
}

std::string label_of(const char* where, Deal how) { return how == Deal::kBalanced ? where : ""; }

}  // namespace tributary::studies
