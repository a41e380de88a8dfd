#include "train/profile/measure_step.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/stopwatch.h"
#include "schedule/pack.h"
#include "train/executor/gradients.h"
#include "train/optimizer/apply_update.h"
#include "train/optimizer/gradient_norm.h"
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

/// Times a step by the clock, or by CPU time where ranks share cores: there the clock runs on while
/// others work, and a rank that waits for samples gives its core to the threads that read them.
class StepClock {
 public:
  explicit StepClock(bool counts_cpu) : counts_cpu_(counts_cpu) {}
  /// Returns the time of this thread since the lap before.
  double lap() {
    const double passed = counts_cpu_ ? thread_cpu_seconds() - thread_ : watch_.seconds();
    watch_ = {};
    thread_ = thread_cpu_seconds();
    return passed;
  }
  /// Returns the time of the whole step so far.
  [[nodiscard]] double whole() const {
    return counts_cpu_ ? process_cpu_seconds() - process_ : step_.seconds();
  }

 private:
  bool counts_cpu_;
  Stopwatch step_, watch_;
  double thread_ = thread_cpu_seconds();
  double process_ = process_cpu_seconds();
};

StepParts take_step(Session& session, bool counts_cpu) {
  const config::RunConfig& config = session.config;
  StepClock clock(counts_cpu);
  const std::vector<data::EncodedSample> samples = session.loader->next_batch();
  std::vector<Tokens> lengths;
  for (const data::EncodedSample& sample : samples) lengths.push_back({std::ssize(sample.tokens)});
  const schedule::PackedBins bins =
      schedule::pack(config.batch.packing, lengths, config.batch.capacity_tokens);
  (void)clock.lap();
  BatchResult batch = accumulate_gradients(*session.model, samples, bins,
                                           {.mrope = config.model.mrope,
                                            .device = session.device,
                                            .sources = static_cast<int>(session.sources.size())});
  const double accumulated = clock.lap();
  double sum_squared = square_gradients(session.model->units()).all;
  StepSums sums;
  sums.sum(sum_squared);
  name_slots(batch, *session.model, session.lanes, sums);
  sums.share(session.mesh->world());
  (void)apply_update(*session.model, *session.optimizer, config, batch.loss, sum_squared);
  StepParts parts{.optimizer = clock.lap(), .whole = clock.whole()};
  double passes = 0;
  for (const auto& [lane, seconds] : batch.of_lanes)
    passes = std::accumulate(seconds.begin(), seconds.end(), passes);
  // Where ranks share cores, the clock only knows the sum of passes and collating.
  const double collating = batch.seconds.data / (passes + batch.seconds.data);
  parts.microbatch = counts_cpu ? accumulated * collating : batch.seconds.data;
  parts.rest =
      parts.whole - parts.optimizer - (counts_cpu ? accumulated : passes + batch.seconds.data);
  parts.microbatch /= static_cast<double>(bins.bins());
  return parts;
}

}  // namespace

config::MeasuredStep measure_step(Session& session, const LiveBytes& bytes,
                                  const mesh::Group& world, const Crowd& crowd,
                                  const StepOptions& options) {
  const bool works = world.index() < crowd.ranks;
  std::vector<double> rest, microbatch, optimizer, whole;
  for (int i = 0; i < options.warm_up + options.steps; ++i) {
    (void)world.sum(std::vector<std::int64_t>{0});  // together
    const StepParts parts = works ? take_step(session, crowd.shares_cores) : StepParts{};
    if (i < options.warm_up) continue;
    rest.push_back(std::max(0.0, parts.rest));
    microbatch.push_back(parts.microbatch);
    optimizer.push_back(parts.optimizer);
    whole.push_back(parts.whole);
  }
  const auto mean_ns = [&](const std::vector<double>& values) -> Nanoseconds {
    const double sum = world.sum(std::vector<double>{spread_of(values).median}).front();
    return {std::llround(1e9 * sum / crowd.ranks)};
  };
  config::MeasuredStep result{.ranks = crowd.ranks,
                              .step = mean_ns(rest),
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
