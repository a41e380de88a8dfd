#include "simulate/samples/deal_step.h"

#include <algorithm>
#include <cmath>

#include "config/family/known_modules.h"
#include "core/error.h"
#include "schedule/pipeline/count_rounds.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "simulate/samples/deal_items.h"

namespace tributary::simulate {

schedule::StepProblem step_problem(const config::Plan& plan,
                                   std::span<const schedule::SampleLoad> loads) {
  const config::MeshShape& mesh = plan.find(config::kBackboneModule)->mesh;
  return {.samples = loads,
          .replicas = mesh.dp_replicate * mesh.dp_shard,
          .meeting = schedule::meeting_of(mesh.dp_shard, config::Shard::kParameters),
          .balance = plan.batch.balance,
          .packing = plan.batch.packing,
          .microbatches = plan.batch.microbatches,
          .capacity = plan.batch.capacity_tokens};
}

StepDealer::StepDealer(const config::Plan& plan, const schedule::Pipeline& pipeline,
                       const cost::StageCosts& costs)
    : plan_(plan), pipeline_(pipeline), costs_(costs) {}

Nanoseconds StepDealer::time_of(const cost::MicrobatchShape& shape) const {
  double flops = 0;
  for (int module = 0; module < std::ssize(pipeline_.modules); ++module)
    for (int stage = 0; stage < pipeline_.modules[module].virtual_stages(); ++stage)
      flops += costs_.flops(module, stage, shape).all.causal;
  if (flops <= 0) return {};
  return {std::max<std::int64_t>(1, std::llround(flops * kNanosecondsPerFlop))};
}

schedule::SampleLoad StepDealer::load_of(const SampleSize& size) {
  auto found = loads_.find(size);
  if (found == loads_.end()) {
    const cost::MicrobatchShape whole = shape_of(size);
    cost::MicrobatchShape media = whole;
    media.backbone = {.tokens = 0, .squared_tokens = 0, .sequences = 0};
    cost::MicrobatchShape tokens = empty_shape();
    tokens.backbone = whole.backbone;
    cost::MicrobatchShape sound = empty_shape();
    sound.audio = whole.audio;
    cost::MicrobatchShape pictures = media;
    pictures.audio = empty_shape().audio;
    TRIB_REQUIRE(size.patches == 0 || time_of(pictures).count > 0,
                 .what = "simulate: model encodes no patches", .where = "sizes of samples",
                 .found = str(size.patches, " patches"),
                 .expected = "none, or a model with an encoder");
    TRIB_REQUIRE(size.frames == 0 || time_of(sound).count > 0,
                 .what = "simulate: model does not encode sound beside images",
                 .where = "sizes of samples", .found = str(size.frames, " positions of sound"),
                 .expected = "none; sound alone is given as patches");
    const schedule::SampleLoad load{
        .tokens = {size.tokens},
        .chains = {{.time = time_of(media), .rows = size.patches + size.frames},
                   {.time = time_of(tokens), .rows = size.tokens}}};
    found = loads_.emplace(size, load).first;
  }
  return found->second;
}

schedule::StepPlan StepDealer::plan(std::span<const SampleSize> samples) {
  const Tokens capacity = plan_.batch.capacity_tokens;
  std::vector<schedule::SampleLoad> loads;
  loads.reserve(samples.size());
  for (const SampleSize& size : samples) {
    TRIB_REQUIRE(size.tokens <= capacity.count,
                 .what = "simulate: sample is longer than a microbatch can be",
                 .where = "batch.capacity_tokens", .found = str(capacity),
                 .expected = str("at least the ", size.tokens, " tokens of the sample"),
                 .fix = "raise it, or leave such samples out, as the trainer does");
    loads.push_back(load_of(size));
  }
  return schedule::plan_step(step_problem(plan_, loads));
}

StepShapes StepDealer::deal(std::span<const SampleSize> samples) {
  return deal(samples, plan(samples));
}

StepShapes StepDealer::deal(std::span<const SampleSize> samples,
                            const schedule::StepPlan& step) const {
  std::size_t fullest = 0;
  for (const schedule::PackedBins& own : step.microbatches)
    fullest = std::max(fullest, static_cast<std::size_t>(own.bins()));
  const auto rounds = static_cast<std::size_t>(schedule::count_rounds(pipeline_, fullest));
  std::vector<std::vector<cost::MicrobatchShape>> at_backbone;
  std::vector<std::vector<int>> in_round(rounds);
  for (const schedule::PackedBins& own : step.microbatches) {
    std::vector<cost::MicrobatchShape>& microbatches = at_backbone.emplace_back();
    for (std::int64_t bin = 0; bin < own.bins(); ++bin) {
      cost::MicrobatchShape& shape = microbatches.emplace_back(empty_shape());
      for (const std::int32_t place : own.bin(bin)) {
        add_sample(shape, samples[place]);
        in_round[bin].push_back(place);
      }
    }
    microbatches.resize(rounds, idle_microbatch());
  }
  StepShapes shapes;
  const auto backbone = static_cast<int>(schedule::backbone_of(pipeline_));
  for (int index = 0; index < std::ssize(pipeline_.modules); ++index) {
    const schedule::PipelineModule& module = pipeline_.modules[index];
    if (module.is_colocated()) {
      deal_passes(samples, in_round, costs_.media(index), module,
                  shapes.emplace_back(static_cast<std::size_t>(module.replicas),
                                      std::vector<cost::MicrobatchShape>(rounds, empty_shape())));
      continue;
    }
    if (index == backbone) {
      shapes.push_back(at_backbone);
      continue;
    }
    auto& replicas = shapes.emplace_back(static_cast<std::size_t>(module.replicas),
                                         std::vector<cost::MicrobatchShape>(rounds, empty_shape()));
    for (std::size_t round = 0; round < rounds; ++round)
      deal_round(samples, in_round[round], costs_.media(index), static_cast<int>(round), replicas);
  }
  return shapes;
}

StepShapes StepDealer::deal(std::span<const SampleShape> samples) {
  std::vector<SampleSize> sizes;
  for (const SampleShape& shape : samples) sizes.push_back(size_of(shape));
  const schedule::StepPlan step = plan(sizes);
  StepShapes shapes = deal(sizes, step);
  const ItemDealer items(plan_, pipeline_, costs_);
  const std::vector<schedule::MediaRound> rounds =
      schedule::list_media(samples, step.microbatches, {Modality::kImage, Modality::kVideo});
  for (int module = 0; module < std::ssize(shapes); ++module)
    if (items.deals_to(module))
      shapes[module] = items.deal(module, rounds, shapes[module].front().size());
  return shapes;
}

cost::MicrobatchShape idle_microbatch() {
  cost::MicrobatchShape idle = empty_shape();
  idle.backbone = {.tokens = 1, .squared_tokens = 1, .sequences = 1};
  return idle;
}

}  // namespace tributary::simulate
