#include "schedule/pipeline/pipeline.h"

#include <algorithm>
#include <iterator>

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

void PipelineMap::check_colocated() {
  for (int index = 0; index < std::ssize(pipeline_.modules); ++index) {
    const PipelineModule& module = pipeline_.modules[index];
    if (!module.is_colocated()) continue;
    TRIB_REQUIRE(module.virtual_stages() == 1, .what = "schedule: colocated module is cut",
                 .where = module.name,
                 .found = str(module.stages, " stages, ", module.chunks, " chunks"),
                 .expected = "1 of each: its ranks have no other work meanwhile");
    TRIB_REQUIRE(from_[index].size() == 1 && pipeline_.edges[from_[index][0]].to == flow_.back(),
                 .what = "schedule: colocated module feeds another than the backbone",
                 .where = module.name,
                 .expected = str("an edge to ", pipeline_.modules[flow_.back()].name, " alone"));
    if (module.takes_turns) check_turns(index);
    const bool is_frozen = std::ranges::count(module.trains, true) == 0 && !module.trains.empty();
    TRIB_REQUIRE(!module.ahead || (module.takes_turns && is_frozen),
                 .what = "schedule: module cannot encode for the step after", .where = module.name,
                 .found = is_frozen ? "no turns" : "a module that trains",
                 .expected = "a frozen module that takes turns");
    sharers_.push_back(index);
  }
  if (sharers_.empty()) return;
  std::ranges::stable_partition(sharers_,
                                [&](int index) { return !pipeline_.modules[index].takes_turns; });
  sharers_.push_back(flow_.back());
}

bool PipelineMap::alternate(int one, int other) const {
  const auto takes = [&](int module) {
    return module == flow_.back() || pipeline_.modules[module].takes_turns ||
           (has_backward(module, 0) &&
            config::splits_backward(pipeline_.modules[flow_.back()].order));
  };
  const bool with_backbone = one == flow_.back() || other == flow_.back();
  return one != other && (!with_backbone || (takes(one) && takes(other)));
}

void PipelineMap::check_turns(int index) const {
  const PipelineModule& module = pipeline_.modules[index];
  for (int replica = 0; replica < module.replicas; ++replica) {
    const std::vector<int> beside =
        lanes_beside(lane_of({.module = index, .replica = replica, .stage = 0}), flow_.back());
    TRIB_REQUIRE(std::ranges::all_of(
                     beside, [&](int lane) { return at(lane).stage == at(beside.front()).stage; }),
                 .what = "schedule: lane that takes turns lies on ranks of several stages",
                 .where = str(module.name, " replica ", replica),
                 .expected = str("ranks of one stage of ", pipeline_.modules[flow_.back()].name));
  }
}

/// The number of equal parts into which a module cuts the ranks: its n-th lane of N has those from
/// n / N to (n + 1) / N. Parts of later stages have no lane of a module beside the first one.
std::int64_t PipelineMap::parts_of(int module) const {
  const PipelineModule& of = pipeline_.modules[module];
  return std::int64_t{of.replicas} *
         (of.beside_first ? pipeline_.modules[flow_.back()].stages : of.stages);
}

std::int64_t PipelineMap::part_of(const Lane& lane) const {
  return std::int64_t{lane.stage} * pipeline_.modules[lane.module].replicas + lane.replica;
}

std::vector<int> PipelineMap::lanes_beside(int lane, int module) const {
  const Lane of = at(lane);
  const auto shares = [&](int each) {
    return each == flow_.back() || pipeline_.modules[each].is_colocated();
  };
  std::vector<int> beside;
  if (module == of.module || !shares(of.module) || !shares(module)) return beside;
  const std::int64_t mine = parts_of(of.module);
  const std::int64_t theirs = parts_of(module);
  const std::int64_t begin = part_of(of) * theirs;
  const std::int64_t end = begin + theirs;
  const PipelineModule& other = pipeline_.modules[module];
  const std::int64_t lanes = std::int64_t{other.replicas} * other.stages;
  for (std::int64_t part = begin / mine; part < lanes && part * mine < end; ++part)
    beside.push_back(lane_of({.module = module,
                              .replica = static_cast<int>(part % other.replicas),
                              .stage = static_cast<int>(part / other.replicas)}));
  std::ranges::sort(beside);
  return beside;
}

std::vector<int> PipelineMap::lanes_beside(int lane) const {
  std::vector<int> beside;
  for (const int module : sharers_) {
    const std::vector<int> of_module = lanes_beside(lane, module);
    beside.insert(beside.end(), of_module.begin(), of_module.end());
  }
  std::ranges::sort(beside);
  return beside;
}

std::vector<std::vector<int>> PipelineMap::lanes_on_ranks(int lane) const {
  const std::vector<int> beside = lanes_beside(lane);
  const auto has_first_rank_of = [&](int one, int other) {
    const Lane a = at(one);
    const Lane b = at(other);
    const std::int64_t first = part_of(b) * parts_of(a.module);
    return part_of(a) * parts_of(b.module) <= first &&
           first < (part_of(a) + 1) * parts_of(b.module);
  };
  // Another combination can only begin where one of the lanes does.
  std::vector<std::vector<int>> combinations;
  const auto add_at_first_rank_of = [&](int begin) {
    std::vector<int>& all = combinations.emplace_back();
    std::ranges::copy_if(beside, std::back_inserter(all),
                         [&](int each) { return has_first_rank_of(each, begin); });
  };
  add_at_first_rank_of(lane);
  for (const int each : beside)
    if (has_first_rank_of(lane, each)) add_at_first_rank_of(each);
  std::ranges::sort(combinations);
  const auto [first, last] = std::ranges::unique(combinations);
  combinations.erase(first, last);
  return combinations;
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
