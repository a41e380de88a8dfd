#include "simulate/step_player.h"

#include <algorithm>

#include "core/error.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::simulate {
namespace {

bool have_equal_replicas(const StepShapes& shapes) {
  return std::all_of(shapes.begin(), shapes.end(), [](const auto& replicas) {
    return std::all_of(replicas.begin(), replicas.end(),
                       [&](const auto& each) { return each == replicas.front(); });
  });
}

/// Whether one replica of each module is given, for all replicas.
bool is_of_one_replica(const std::vector<StepShapes>& given) {
  return given.size() == 1 &&
         std::all_of(given.front().begin(), given.front().end(),
                     [](const auto& replicas) { return replicas.size() == 1; });
}

}  // namespace

StepPlayer::StepPlayer(const config::Plan& plan, const cost::StageCosts& costs,
                       const config::Cluster& cluster, const SimulationOptions& options)
    : plan_(plan),
      costs_(costs),
      cluster_(cluster),
      options_(options),
      whole_(schedule::pipeline_of(plan)),
      dealer_(plan, whole_, costs),
      runs_ahead_(RunAhead::has_any(plan)) {
  steps_are_equal_ = !is_disturbed() && find_equal_shapes();
  folded_ = fold_replicas(whole_, steps_are_equal_);
  for (std::size_t module = 0; module < equal_shapes_.size() && steps_are_equal_; ++module)
    equal_shapes_[module].resize(
        static_cast<std::size_t>(folded_.pipeline.modules[module].replicas),
        equal_shapes_[module].front());
}

bool StepPlayer::is_disturbed() const {
  return options_.disturbance.straggler_share > 0 || options_.disturbance.anomaly_share > 0;
}

RunAhead StepPlayer::ahead(const StepProgram& program, const Network& network) const {
  return {plan_, program, network, options_.batches_ahead};
}

/// Finds the microbatches of one replica of each module that all steps have, if replicas are equal.
bool StepPlayer::find_equal_shapes() {
  const auto& [kind, recorded, batches, deals, shapes, given] = options_.samples;
  if (kind == SampleSource::Kind::kFullMicrobatches) {
    equal_shapes_ = full_microbatches(plan_, fold_replicas(whole_, true).pipeline);
    return true;
  }
  if (kind == SampleSource::Kind::kGiven) {
    if (!is_of_one_replica(given)) return false;
    equal_shapes_ = given.front();
    gather_passes(whole_, equal_shapes_);
    return true;
  }
  std::vector<SampleSize> sizes;
  if (kind == SampleSource::Kind::kRecorded) sizes = recorded.sizes;
  if (kind == SampleSource::Kind::kBatches)
    for (const std::vector<SampleSize>& batch : *batches)
      sizes.insert(sizes.end(), batch.begin(), batch.end());
  if (sizes.empty() || std::any_of(sizes.begin(), sizes.end(),
                                   [&](const SampleSize& size) { return size != sizes.front(); }))
    return false;
  const std::int64_t samples = plan_.batch.global_samples;
  equal_shapes_ =
      dealer_.deal(std::vector<SampleSize>(static_cast<std::size_t>(samples), sizes.front()));
  if (!have_equal_replicas(equal_shapes_)) return false;
  for (auto& replicas : equal_shapes_) replicas.resize(1);
  return true;
}

/// Builds the schedule for the number of microbatches in `shapes`; the last one is cached.
const BuiltProgram& StepPlayer::build(const StepShapes& shapes) {
  std::size_t max = 0;  // max over modules; a colocated one may have fewer
  for (const auto& replicas : shapes) max = std::max(max, replicas.front().size());
  const int microbatches = static_cast<int>(max);
  if (built_ && built_->program.pipeline().microbatches == microbatches) return *built_;
  schedule::Pipeline pipeline = folded_.pipeline;
  pipeline.microbatches = microbatches;
  std::vector<bool> whole_batches;
  if (options_.batches_ahead >= 0)
    whole_batches = RunAhead::edges_ahead(plan_, schedule::PipelineMap(pipeline));
  StepProgram program(lower_schedule(schedule_passes(pipeline), options_.buffers), options_.buffers,
                      std::move(whole_batches));
  Network network = network_of(plan_, cluster_, program, folded_.folding, options_.network);
  std::vector<std::int64_t> ranks = ranks_of_lanes(plan_, program, folded_.folding);
  built_ = BuiltProgram{std::move(program), std::move(network), std::move(ranks)};
  return *built_;
}

PlayedStep StepPlayer::time(std::int64_t step, bool disturbed, RunAhead::Left& left) {
  const StepShapes shapes = shapes_of(step);
  const auto& [program, network, lane_ranks] = build(shapes);
  PlayedStep played{.step = step, .loaded = load_step(program, costs_, folded_.folding, shapes)};
  if (disturbed)
    disturb_step(program, options_.disturbance, lane_ranks, options_.seed,
                 static_cast<std::uint64_t>(step), played.loaded.load);
  const RunAhead::Left found = left;
  played.times = runs_ahead_ ? ahead(program, network).time(played.loaded.load, left)
                             : time_step(program, played.loaded.load, network);
  TRIB_REQUIRE(played.times.blocked.empty(), .what = "simulate: step never ends",
               .where = str("step ", step), .found = describe_blocked(program, played.times),
               .fix = "give links or the pool more buffers");
  played.is_steady = left == found;
  return played;
}

PlayedStep StepPlayer::play(std::int64_t step, RunAhead::Left& left) {
  PlayedStep played = time(step, is_disturbed(), left);
  const StepProgram& program = built_->program;
  played.memory = follow_memory(program, played.loaded.load, played.times, costs_,
                                played.loaded.pass_costs, &played.memory_points);
  return played;
}

StepShapes StepPlayer::shapes_of(std::int64_t step) {
  if (steps_are_equal_) return equal_shapes_;
  const auto number = static_cast<std::uint64_t>(step);
  const std::int64_t samples = plan_.batch.global_samples;
  const SampleSource& source = options_.samples;
  switch (source.kind) {
    case SampleSource::Kind::kFullMicrobatches:
      return full_microbatches(plan_, folded_.pipeline);
    case SampleSource::Kind::kGiven:
      return given_shapes(number);
    case SampleSource::Kind::kMixture:
      return dealer_.deal(draw_mixture(options_.seed, number, samples, mixture_sound(),
                                       plan_.batch.capacity_tokens));
    case SampleSource::Kind::kRecorded:
      return dealer_.deal(draw_recorded(source.recorded, options_.seed, number, samples));
    case SampleSource::Kind::kBatches:
      return deal_batch(number % source.batches->size());
    case SampleSource::Kind::kShapes:
      return dealer_.deal((*source.shapes)[number % source.shapes->size()]);
  }
  TRIB_RAISE(Fault::kBug, .what = "simulate: no such source of samples");
}

MixtureSound StepPlayer::mixture_sound() const {
  const auto modules = static_cast<int>(whole_.modules.size());
  for (int module = 0; module < modules; ++module)
    if (costs_.works_on(module, cost::Media::kFrames)) return MixtureSound::kBesidePictures;
  return MixtureSound::kNone;
}

StepShapes StepPlayer::deal_batch(std::size_t batch) {
  const SampleSource& source = options_.samples;
  const std::vector<SampleSize>& samples = (*source.batches)[batch];
  return source.deals.empty() ? dealer_.deal(samples) : dealer_.deal(samples, *source.deals[batch]);
}

StepShapes StepPlayer::given_shapes(std::uint64_t step) const {
  const std::vector<StepShapes>& given = options_.samples.given;
  StepShapes shapes = given[step % given.size()];
  gather_passes(whole_, shapes);
  if (!is_of_one_replica(given)) return shapes;
  for (std::size_t module = 0; module < shapes.size(); ++module) {
    const auto replicas = static_cast<std::size_t>(folded_.pipeline.modules[module].replicas);
    shapes[module].resize(replicas, shapes[module].front());
  }
  return shapes;
}

}  // namespace tributary::simulate
