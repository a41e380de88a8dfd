#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "schedule/order/all_orders.h"
#include "schedule/pipeline/pipeline.h"

namespace tributary::schedule {

inline PipelineModule make_module(config::PipelineOrder order, int stages, int chunks = 0) {
  PipelineModule module{.name = "backbone", .order = order, .stages = stages};
  const int fixed = traits_of(order).chunks;
  module.chunks = fixed > 0 ? fixed : std::max(chunks, 2);
  return module;
}

/// A backbone alone.
inline Pipeline make_pipeline(config::PipelineOrder order, int stages, int microbatches,
                              int chunks = 0) {
  return {
      .modules = {make_module(order, stages, chunks)}, .edges = {}, .microbatches = microbatches};
}

/// A tower on each rank of a pipeline of `stages`, a rank each.
inline Pipeline make_colocated(int stages, int microbatches, PipelineModule tower) {
  tower.name = "vision";
  tower.replicas = stages;
  return {.modules = {std::move(tower), {.name = "backbone", .stages = stages}},
          .edges = {{.from = 0, .to = 1}},
          .microbatches = microbatches};
}

/// The lists of some lanes as text.
inline std::string lists_of(const Schedule& schedule, int first, int count) {
  return to_text(std::span(schedule.lists)
                     .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
}

inline void draw_times(RandomStream& random, PipelineModule& module) {
  // Uneven layers: each virtual stage has its own times, some have none of a kind.
  for (int i = 0; i < module.virtual_stages(); ++i) {
    const auto draw = [&] { return Nanoseconds{random.below(8) == 0 ? 0 : random.between(1, 40)}; };
    module.times.push_back({draw(), draw(), draw()});
  }
}

/// Trains all, nothing, all from some virtual stage on, or any.
inline void draw_frozen(RandomStream& random, PipelineModule& module) {
  const int stages = module.virtual_stages();
  const auto how = random.below(6);
  if (how <= 1) return;
  const auto first = random.between(0, stages);
  for (int i = 0; i < stages; ++i)
    module.trains.push_back(how == 2 ? false : how == 3 ? i >= first : random.below(2) == 0);
}

/// A backbone of any order with up to three encoders in front, chained or side by side, each with
/// stages, replicas, times and frozen parts of its own.
inline Pipeline draw_pipeline(RandomStream& random, int max_stages = 6, int max_rounds = 14) {
  Pipeline pipeline;
  const OrderTraits& traits = all_orders()[random.below(all_orders().size())];
  const int stages = static_cast<int>(random.between(1, max_stages));
  pipeline.microbatches = static_cast<int>(random.between(1, max_rounds));
  pipeline.hop = {random.below(3) == 0 ? random.between(1, 10) : 0};
  const auto encoders = random.below(3) == 0 ? random.between(1, 3) : 0;
  for (int i = 0; i < encoders; ++i) {
    PipelineModule encoder{.name = "encoder" + std::to_string(i)};
    encoder.order =
        random.below(2) == 0 ? config::PipelineOrder::k1f1b : config::PipelineOrder::kZbH1;
    encoder.stages = static_cast<int>(random.between(1, 3));
    encoder.replicas = static_cast<int>(random.between(1, 3));
    pipeline.modules.push_back(encoder);
  }
  PipelineModule backbone =
      make_module(traits.order, stages, static_cast<int>(random.between(2, 4)));
  backbone.replicas = static_cast<int>(random.between(1, 2));
  if (traits.order == config::PipelineOrder::kInterleaved) {
    backbone.group = stages + static_cast<int>(random.below(3));
    pipeline.microbatches = std::max(1, pipeline.microbatches / backbone.group) * backbone.group;
  }
  pipeline.modules.push_back(backbone);
  const int last = static_cast<int>(encoders);
  for (int i = 0; i < last; ++i) {
    const bool chained = i + 1 < last && random.below(4) == 0;
    pipeline.edges.push_back({.from = i, .to = chained ? i + 1 : last});
  }
  for (PipelineModule& module : pipeline.modules) {
    draw_times(random, module);
    draw_frozen(random, module);
  }
  return pipeline;
}

/// Adds an encoder on the ranks of the backbone. Every other one takes turns with the backbone,
/// whose order has whole backwards where such a one trains.
inline void add_beside(RandomStream& random, const std::string& name, Pipeline& pipeline) {
  const int last = static_cast<int>(std::ssize(pipeline.modules));
  const int backbone =
      static_cast<int>(std::ranges::find(pipeline.modules, "backbone", &PipelineModule::name) -
                       pipeline.modules.begin());
  PipelineModule encoder{.name = name};
  encoder.replicas = static_cast<int>(random.between(1, 6));
  encoder.passes = static_cast<int>(random.between(1, pipeline.microbatches));
  if (random.below(2) == 0) {
    encoder.takes_turns = true;  // so its lanes lie within stages
    encoder.replicas = pipeline.modules[backbone].stages * static_cast<int>(random.between(1, 3));
  }
  draw_times(random, encoder);
  draw_frozen(random, encoder);
  const bool splits = traits_of(pipeline.modules[backbone].order).splits_backward;
  if (splits && encoder.takes_turns) encoder.trains = {false};
  encoder.ahead =
      encoder.takes_turns && encoder.trains == std::vector<bool>{false} && random.below(2) == 0;
  // Before or behind the others in the order of lanes.
  const bool is_first = random.below(2) == 0;
  const int index = is_first ? 0 : last;
  pipeline.modules.insert(pipeline.modules.begin() + index, encoder);
  if (is_first)
    for (PipelineEdge& edge : pipeline.edges) edge = {.from = edge.from + 1, .to = edge.to + 1};
  pipeline.edges.push_back({.from = index, .to = is_first ? backbone + 1 : backbone});
}

/// The same with one to three more encoders on the ranks of the backbone.
inline Pipeline draw_colocated(RandomStream& random, int max_stages = 5, int max_rounds = 9) {
  Pipeline pipeline = draw_pipeline(random, max_stages, max_rounds);
  add_beside(random, "beside", pipeline);
  RandomStream again = random;  // what is drawn later does not depend on how many there are
  for (const char* name : {"beside2", "beside3"}) {
    if (again.below(3) > 0) continue;
    add_beside(again, name, pipeline);
    const auto added = std::ranges::find(pipeline.modules, name, &PipelineModule::name);
    added->beside_first = again.below(3) == 0;
  }
  return pipeline;
}

}  // namespace tributary::schedule
