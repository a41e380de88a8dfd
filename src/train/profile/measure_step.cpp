#include "train/profile/measure_step.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/stopwatch.h"
#include "schedule/pack.h"
#include "train/gradients.h"
#include "train/optimizer/apply_update.h"
#include "train/profile/layer_times.h"

namespace tributary::train {
namespace {

/// One step, in seconds.
struct StepParts {
  double rest = 0;        // beside passes, collating and the update
  double microbatch = 0;  // collating, of one
  double optimizer = 0;
  double whole = 0;
};

StepParts take_step(Session& session) {
  const config::RunConfig& config = session.config;
  Stopwatch whole;
  const std::vector<data::EncodedSample> samples = session.loader->next_batch();
  std::vector<Tokens> lengths;
  for (const data::EncodedSample& sample : samples) lengths.push_back({std::ssize(sample.tokens)});
  const schedule::PackedBins bins =
      schedule::pack(config.batch.packing, lengths, config.batch.capacity_tokens);
  const BatchResult batch =
      accumulate_gradients(*session.model, samples, bins,
                           {.mrope = config.model.mrope,
                            .device = session.device,
                            .sources = static_cast<int>(session.sources.size())});
  Stopwatch update;
  (void)apply_update(*session.model, *session.optimizer, config, batch.loss);
  StepParts parts{.optimizer = update.seconds(), .whole = whole.seconds()};
  const double passes = std::accumulate(batch.microbatches.begin(), batch.microbatches.end(), 0.0);
  parts.rest = parts.whole - passes - batch.seconds.data - parts.optimizer;
  parts.microbatch = batch.seconds.data / static_cast<double>(bins.bins());
  return parts;
}

}  // namespace

config::MeasuredStep measure_step(Session& session, const LiveBytes& bytes,
                                  const mesh::Group& world, const StepOptions& options) {
  std::vector<double> rest, microbatch, optimizer, whole;
  for (int i = 0; i < options.warm_up + options.steps; ++i) {
    (void)world.sum(std::vector<std::int64_t>{0});  // together
    const StepParts parts = take_step(session);
    if (i < options.warm_up) continue;
    rest.push_back(std::max(0.0, parts.rest));
    microbatch.push_back(parts.microbatch);
    optimizer.push_back(parts.optimizer);
    whole.push_back(parts.whole);
  }
  const auto mean_ns = [&](const std::vector<double>& values) -> Nanoseconds {
    const double sum = world.sum(std::vector<double>{spread_of(values).median}).front();
    return {std::llround(1e9 * sum / world.size())};
  };
  config::MeasuredStep result{.step = mean_ns(rest),
                              .microbatch = mean_ns(microbatch),
                              .optimizer = mean_ns(optimizer),
                              .spread = spread_of(whole).spread};
  for (const auto& unit : session.model->units())
    if (unit->trainable()) result.parameters += unit->shard_value().numel();
  // On a device tensors are not part of the process.
  const std::int64_t tensors = session.device.is_cpu() ? bytes.peak() : 0;
  result.process = {std::max<std::int64_t>(0, peak_process_bytes() - tensors)};
  return result;
}

}  // namespace tributary::train
