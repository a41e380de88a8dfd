#include "schedule/pipeline/pipeline.h"

#include <algorithm>

#include "core/error.h"
#include "schedule/order/all_orders.h"

namespace tributary::schedule {

PipelineMap::PipelineMap(const Pipeline& pipeline) : pipeline_(pipeline) {
  check_modules();
  for (const PipelineModule& module : pipeline.modules) {
    first_lane_.push_back(lanes_);
    lanes_ += module.replicas * module.stages;
  }
  order_modules();
  check_colocated();
  find_backwards();
}

void PipelineMap::check_modules() const {
  TRIB_REQUIRE(
      !pipeline_.modules.empty() && pipeline_.microbatches >= 1,
      .what = "schedule: pipeline is empty",
      .found = str(pipeline_.modules.size(), " modules, ", pipeline_.microbatches, " microbatches"),
      .expected = "at least 1 of each");
  for (const PipelineModule& module : pipeline_.modules) {
    TRIB_REQUIRE(module.stages >= 1 && module.chunks >= 1 && module.replicas >= 1,
                 .what = "schedule: module has no stage, chunk or replica", .where = module.name,
                 .found = str(module.stages, " stages, ", module.chunks, " chunks, ",
                              module.replicas, " replicas"),
                 .expected = "at least 1 of each");
    TRIB_REQUIRE(module.passes >= 0, .what = "schedule: module has a negative number of passes",
                 .where = module.name, .found = str(module.passes), .expected = "at least 0");
    TRIB_REQUIRE(module.trains.empty() || std::ssize(module.trains) == module.virtual_stages(),
                 .what = "schedule: trains is not given for each virtual stage",
                 .where = module.name, .found = str(module.trains.size()),
                 .expected = str(module.virtual_stages(), ", or none where all train"));
  }
  const int modules = static_cast<int>(std::ssize(pipeline_.modules));
  for (const PipelineEdge& edge : pipeline_.edges)
    TRIB_REQUIRE(edge.from >= 0 && edge.to >= 0 && edge.from < modules && edge.to < modules,
                 .what = "schedule: edge leads nowhere", .found = str(edge.from, " to ", edge.to),
                 .expected = str("modules 0 to ", modules - 1));
}

void PipelineMap::order_modules() {
  const std::size_t modules = pipeline_.modules.size();
  into_.resize(modules);
  from_.resize(modules);
  for (int edge = 0; edge < std::ssize(pipeline_.edges); ++edge) {
    into_[pipeline_.edges[edge].to].push_back(edge);
    from_[pipeline_.edges[edge].from].push_back(edge);
  }
  std::vector<bool> placed(modules);
  const auto is_next = [&](std::size_t module) {
    return !placed[module] &&
           std::all_of(into_[module].begin(), into_[module].end(),
                       [&](int edge) { return placed[pipeline_.edges[edge].from]; });
  };
  while (flow_.size() < modules) {
    std::size_t next = 0;
    while (next < modules && !is_next(next)) ++next;
    TRIB_REQUIRE(next < modules, .what = "schedule: edges go round in a circle",
                 .found = str(modules - flow_.size(), " modules that wait for each other"));
    placed[next] = true;
    flow_.push_back(static_cast<int>(next));
  }
  for (const int module : flow_)
    TRIB_REQUIRE(module == flow_.back() || !from_[module].empty(),
                 .what = "schedule: module feeds no other", .where = pipeline_.modules[module].name,
                 .expected = str("an edge on the way to ", pipeline_.modules[flow_.back()].name));
}

/// Colocated modules may only exchange whole batches: then a rank runs one of them at a time.
void PipelineMap::check_colocated() {
  for (int index = 0; index < std::ssize(pipeline_.modules); ++index) {
    const PipelineModule& module = pipeline_.modules[index];
    if (!module.is_colocated()) continue;
    TRIB_REQUIRE(colocated_ < 0, .what = "schedule: two modules are colocated",
                 .where = module.name,
                 .found = str("beside ", pipeline_.modules[std::max(0, colocated_)].name),
                 .expected = "one: which of them has the ranks first is not known");
    TRIB_REQUIRE(module.virtual_stages() == 1, .what = "schedule: colocated module is cut",
                 .where = module.name,
                 .found = str(module.stages, " stages, ", module.chunks, " chunks"),
                 .expected = "1 of each: its ranks have no other work meanwhile");
    TRIB_REQUIRE(from_[index].size() == 1 && pipeline_.edges[from_[index][0]].to == flow_.back(),
                 .what = "schedule: colocated module feeds another than the backbone",
                 .where = module.name,
                 .expected = str("an edge to ", pipeline_.modules[flow_.back()].name, " alone"));
    colocated_ = index;
    if (module.takes_turns) check_turns(index);
  }
}

void PipelineMap::check_turns(int index) const {
  const PipelineModule& module = pipeline_.modules[index];
  for (int replica = 0; replica < module.replicas; ++replica) {
    const std::vector<int> beside =
        lanes_beside(lane_of({.module = index, .replica = replica, .stage = 0}));
    TRIB_REQUIRE(std::ranges::all_of(
                     beside, [&](int lane) { return at(lane).stage == at(beside.front()).stage; }),
                 .what = "schedule: lane that takes turns lies on ranks of several stages",
                 .where = str(module.name, " replica ", replica),
                 .expected = str("ranks of one stage of ", pipeline_.modules[flow_.back()].name));
  }
}

std::vector<int> PipelineMap::lanes_beside(int lane) const {
  std::vector<int> beside;
  if (colocated_ < 0) return beside;
  const Lane of = at(lane);
  if (of.module != colocated_ && of.module != flow_.back()) return beside;
  const bool on_first = pipeline_.modules[colocated_].beside_first;
  if (on_first && of.stage > 0) return beside;
  const auto lanes_of = [&](int module) {
    const PipelineModule& each = pipeline_.modules[module];
    return std::int64_t{each.replicas} * (on_first ? 1 : each.stages);
  };
  // Each lane has an equal part of the ranks: the n-th of N has those from n / N to (n + 1) / N.
  const auto place_of = [&](const Lane& each) {
    return std::int64_t{each.stage} * pipeline_.modules[each.module].replicas + each.replica;
  };
  const int other = of.module == colocated_ ? flow_.back() : colocated_;
  const std::int64_t mine = lanes_of(of.module);
  const std::int64_t theirs = lanes_of(other);
  const std::int64_t begin = place_of(of) * theirs;
  const std::int64_t end = begin + theirs;
  const int replicas = pipeline_.modules[other].replicas;
  for (std::int64_t place = begin / mine; place * mine < end; ++place)
    beside.push_back(lane_of({.module = other,
                              .replica = static_cast<int>(place % replicas),
                              .stage = static_cast<int>(place / replicas)}));
  std::sort(beside.begin(), beside.end());
  return beside;
}

void PipelineMap::find_backwards() {
  backward_.resize(pipeline_.modules.size());
  for (const int index : flow_) {
    const PipelineModule& module = pipeline_.modules[index];
    bool backward = std::any_of(into_[index].begin(), into_[index].end(), [&](int edge) {
      return backward_[pipeline_.edges[edge].from].back();
    });
    for (int virtual_stage = 0; virtual_stage < module.virtual_stages(); ++virtual_stage) {
      backward = backward || module.has_weights_of(virtual_stage);
      backward_[index].push_back(backward);
    }
  }
}

int PipelineMap::lane_of(const Lane& lane) const {
  return first_lane_[lane.module] + lane.replica * pipeline_.modules[lane.module].stages +
         lane.stage;
}

Lane PipelineMap::at(int lane) const {
  TRIB_CHECK(lane >= 0 && lane < lanes_, .what = "schedule: no such lane", .found = str(lane),
             .expected = str("0 to ", lanes_ - 1));
  const auto next = std::upper_bound(first_lane_.begin(), first_lane_.end(), lane);
  const int module = static_cast<int>(next - first_lane_.begin()) - 1;
  const int within = lane - first_lane_[module];
  const int stages = pipeline_.modules[module].stages;
  return {.module = module, .replica = within / stages, .stage = within % stages};
}

std::string PipelineMap::describe(int lane) const {
  const Lane of = at(lane);
  return str(pipeline_.modules[of.module].name, " replica ", of.replica, " stage ", of.stage);
}

int PipelineMap::virtual_stage(int module, int stage, int chunk) const {
  const PipelineModule& of = pipeline_.modules[module];
  const bool upwards = traits_of(of.order).fold == Fold::kVShaped && chunk % 2 == 1;
  return chunk * of.stages + (upwards ? of.stages - 1 - stage : stage);
}

PipelineMap::Position PipelineMap::position_of(int module, int virtual_stage) const {
  const PipelineModule& of = pipeline_.modules[module];
  const int chunk = virtual_stage / of.stages;
  const int along = virtual_stage % of.stages;
  const bool upwards = traits_of(of.order).fold == Fold::kVShaped && chunk % 2 == 1;
  return {.stage = upwards ? of.stages - 1 - along : along, .chunk = chunk};
}

bool PipelineMap::has_backward(int module, int virtual_stage) const {
  return backward_[module][virtual_stage];
}

}  // namespace tributary::schedule
