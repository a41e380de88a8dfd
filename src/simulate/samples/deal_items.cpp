#include "simulate/samples/deal_items.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "config/family/known_modules.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "simulate/samples/deal_samples.h"

namespace tributary::simulate {
namespace {

void add_item(cost::PassShape& to, const Grid& grid) {
  const auto frames = static_cast<double>(grid.time);
  const auto of_frame = static_cast<double>(grid.rows * grid.columns);
  to.tokens += frames * of_frame;
  to.squared_tokens += frames * of_frame * of_frame;
  to.sequences += grid.time;
}

cost::PassShape times(const cost::PassShape& shape, std::int64_t count) {
  const auto factor = static_cast<double>(count);
  return {.tokens = factor * shape.tokens,
          .squared_tokens = factor * shape.squared_tokens,
          .sequences = count * shape.sequences};
}

}  // namespace

ItemDealer::ItemDealer(const config::Plan& plan, const schedule::Pipeline& pipeline,
                       const cost::StageCosts& costs)
    : plan_(plan), pipeline_(pipeline), costs_(costs) {}

bool ItemDealer::deals_to(int module) const {
  return module != static_cast<int>(schedule::backbone_of(pipeline_)) &&
         costs_.media(module) == cost::Media::kPatches;
}

std::int64_t ItemDealer::cost_of(const Grid& grid) const {
  cost::MicrobatchShape alone = empty_shape();
  add_item(alone.encoder, grid);
  double flops = 0;
  for (int module = 0; module < std::ssize(pipeline_.modules); ++module)
    for (int stage = 0; stage < pipeline_.modules[module].virtual_stages(); ++stage)
      flops += costs_.flops(module, stage, alone).all.causal;
  return std::llround(flops * kNanosecondsPerFlop);
}

std::vector<std::vector<cost::MicrobatchShape>> ItemDealer::deal(
    int module, std::vector<schedule::MediaRound> rounds, std::size_t microbatches) const {
  const schedule::PipelineModule& encoder = pipeline_.modules[module];
  const schedule::MediaSeats seats =
      schedule::seats_of(plan_.find(encoder.name)->mesh, plan_.find(config::kBackboneModule)->mesh,
                         encoder.passes, encoder.takes_turns);
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::int64_t> costs;
  const auto cost = [&](const Grid& grid) {
    const auto [known, is_new] = costs.try_emplace({grid.time, grid.rows, grid.columns}, 0);
    if (is_new) known->second = cost_of(grid);
    return known->second;
  };
  schedule::deal_media(seats, cost, rounds);
  std::vector<std::vector<cost::MicrobatchShape>> shapes(
      static_cast<std::size_t>(encoder.replicas),
      std::vector<cost::MicrobatchShape>(microbatches, empty_shape()));
  using Passes = std::vector<std::pair<std::int64_t, cost::PassShape>>;  // cost and shape of each
  std::vector<Passes> of_seat(static_cast<std::size_t>(seats.replicas * seats.seats),
                              Passes(microbatches, {0, empty_shape().encoder}));
  for (const schedule::MediaRound& round : rounds)
    for (const schedule::MediaItem& item : round) {
      auto& [load, shape] = of_seat[item.seat][item.pass];
      load += cost(item.grid);
      add_item(shape, item.grid);
    }
  for (std::size_t pass = 0; pass < microbatches; ++pass)
    for (std::int64_t replica = 0; replica < encoder.replicas; ++replica) {
      const auto first = of_seat.begin() + replica * seats.seats;
      const auto costliest =
          std::max_element(first, first + seats.seats, [&](const Passes& one, const Passes& other) {
            return one[pass].first < other[pass].first;
          });
      shapes[replica][pass].encoder = times((*costliest)[pass].second, seats.seats);
    }
  return shapes;
}

}  // namespace tributary::simulate
