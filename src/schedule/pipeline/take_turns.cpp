#include "schedule/pipeline/take_turns.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "core/error.h"
#include "schedule/pipeline/lower_schedule.h"
#include "schedule/pipeline/time_schedule.h"

namespace tributary::schedule {
namespace {

using Time = std::int64_t;

constexpr Time kForever = std::numeric_limits<Time>::max();
constexpr Time kForward = 1;
constexpr Time kBackward = 2;

/// The passes of the backbone's stages in nominal times.
class NominalBackbone {
 public:
  NominalBackbone(const PipelineMap& map, const Schedule& schedule) {
    PipelineModule backbone = map.pipeline().modules[map.flow().back()];
    backbone.replicas = 1;
    backbone.trains.clear();
    for (int i = 0; i < backbone.virtual_stages(); ++i)  // the same messages, without encoders
      backbone.trains.push_back(map.has_backward(map.flow().back(), i));
    backbone.times.assign(static_cast<std::size_t>(backbone.virtual_stages()),
                          {{kForward}, {kBackward / 2}, {kBackward / 2}});
    Schedule alone{.pipeline = {.modules = {backbone},
                                .edges = {},
                                .microbatches = map.pipeline().microbatches},
                   .lists = {},
                   .in_flight = std::vector<int>(static_cast<std::size_t>(backbone.stages))};
    for (int stage = 0; stage < backbone.stages; ++stage)
      alone.lists.push_back(
          schedule.lists[map.lane_of({.module = map.flow().back(), .replica = 0, .stage = stage})]);
    // As messages would hold it up.
    const Schedule lowered = lower_schedule(alone, {});
    const PipelineMap map_alone(lowered.pipeline);
    const DependencyGraph graph(lowered, map_alone, {});
    const ScheduleTime time = time_schedule(graph, map_alone, costs_of(map_alone));
    for (int stage = 0; stage < backbone.stages; ++stage) {
      std::vector<Span>& own = spans_.emplace_back();
      for (int node = graph.first_node(stage); node < graph.first_node(stage + 1); ++node)
        if (is_pass(graph.action(node).op))
          own.push_back({time.start[node].count, time.end[node].count, graph.action(node)});
    }
    makespan_ = time.makespan.count;
  }

  [[nodiscard]] int stages() const { return static_cast<int>(spans_.size()); }
  /// The number of passes of a stage.
  [[nodiscard]] int passes(int stage) const { return static_cast<int>(spans_[stage].size()); }
  /// When a stage has nothing to do before pass `next`, or after all of them.
  [[nodiscard]] Time gap_begin(int stage, int next) const {
    return next == 0 ? 0 : spans_[stage][next - 1].end;
  }
  [[nodiscard]] Time gap_end(int stage, int next) const {
    return next == passes(stage) ? makespan_ : spans_[stage][next].start;
  }
  /// When the first virtual stage begins a microbatch, and when it has given its gradient.
  [[nodiscard]] Time begin_of(std::int64_t microbatch) const {
    return find(microbatch, [](Op op) { return op == Op::kForward; }).start;
  }
  [[nodiscard]] Time gradient_of(std::int64_t microbatch) const {
    return find(microbatch, gives_input_gradient).end;
  }

 private:
  struct Span {
    Time start;
    Time end;
    Action action;
  };
  template <class Is>
  [[nodiscard]] const Span& find(std::int64_t microbatch, const Is& is) const {
    const auto found = std::ranges::find_if(spans_[0], [&](const Span& span) {
      return span.action.chunk == 0 && span.action.microbatch == microbatch && is(span.action.op);
    });
    TRIB_CHECK(found != spans_[0].end(), .what = "schedule: backbone lacks a pass",
               .where = str("microbatch ", microbatch));
    return *found;
  }

  std::vector<std::vector<Span>> spans_;  // [stages][passes]
  Time makespan_ = 0;
};

/// The pass of the backbone before which each pass of a colocated module runs; the number of
/// passes: after them all.
struct Places {
  std::vector<int> forward;   // [passes of the colocated module]
  std::vector<int> backward;  // likewise; empty: it has none
};

/// Places the passes of colocated modules on one stage, module after module.
class StagePlaces {
 public:
  StagePlaces(const NominalBackbone& backbone, int stage)
      : backbone_(backbone),
        stage_(stage),
        used_(static_cast<std::size_t>(backbone.passes(stage)) + 1) {}

  Places place(const PassGroups& groups, bool has_backward) {
    Places places;
    for (std::int64_t pass = 0; pass < groups.passes; ++pass)
      places.forward.push_back(place_forward(groups, pass, places.forward));
    for (std::int64_t pass = 0; has_backward && pass < groups.passes; ++pass)
      places.backward.push_back(place_backward(groups, pass, places.backward));
    return places;
  }
  /// Nothing in this step needs passes for the step after. They take the last of equal gaps, where
  /// a pass that is too long for it holds up the fewest others.
  Places place_ahead(std::int64_t passes) {
    Places places;
    for (std::int64_t pass = 0; pass < passes; ++pass)
      places.forward.push_back(
          longest_gap(0, 0, kForever, kForward, Equal::kLast).value_or(backbone_.passes(stage_)));
    std::ranges::sort(places.forward);
    return places;
  }

 private:
  int place_forward(const PassGroups& groups, std::int64_t pass, const std::vector<int>& before) {
    const int min = before.empty() ? 0 : before.back();
    const Time needed = backbone_.begin_of(groups.first_of(pass));
    const auto found = longest_gap(min, 0, needed, kForward);
    if (found) return *found;
    const Time ahead = backbone_.begin_of(groups.first_of(std::max<std::int64_t>(0, pass - 1)));
    int last = min;
    while (last < backbone_.passes(stage_) && backbone_.gap_begin(stage_, last + 1) <= ahead)
      ++last;
    return last;
  }

  int place_backward(const PassGroups& groups, std::int64_t pass, const std::vector<int>& before) {
    const int min = before.empty() ? 0 : before.back();
    const auto found = longest_gap(min, given(groups, pass), kForever, kBackward);
    if (found) return *found;
    if (pass + 1 == groups.passes) return backbone_.passes(stage_);
    int first = min;
    while (first < backbone_.passes(stage_) &&
           backbone_.gap_end(stage_, first) < given(groups, pass + 1))
      ++first;
    return first;
  }

  /// When the gradients of a pass are there.
  [[nodiscard]] Time given(const PassGroups& groups, std::int64_t pass) const {
    return backbone_.gradient_of(groups.first_of(pass + 1) - 1);
  }

  enum class Equal { kFirst, kLast };
  /// The place from `min` on with the longest gap between two times, less what is placed there
  /// already; none where no gap is left.
  std::optional<int> longest_gap(int min, Time from, Time until, Time length,
                                 Equal of_equals = Equal::kFirst) {
    std::optional<int> found;
    Time longest = 0;
    for (int next = min; next <= backbone_.passes(stage_); ++next) {
      const Time begin = std::max(from, backbone_.gap_begin(stage_, next));
      const Time end = std::min(until, backbone_.gap_end(stage_, next));
      const Time left = end - begin - used_[static_cast<std::size_t>(next)];
      const bool is_longer = left > longest || (of_equals == Equal::kLast && left == longest);
      if (left <= 0 || !is_longer) continue;
      longest = left;
      found = next;
    }
    if (found) used_[static_cast<std::size_t>(*found)] += length;
    return found;
  }

  const NominalBackbone& backbone_;
  int stage_;
  std::vector<Time> used_;  // [places]
};

constexpr int kBeforeAll = -1;
constexpr int kAfterAll = std::numeric_limits<int>::max();

/// Passes of a lane between two turns.
struct Block {
  int place = 0;  // before which pass of the backbone; of the backbone itself: which pass
  ActionList takes = {};
  ActionList passes = {};
  ActionList gives = {};
};

/// Writes the lists of lanes on the same ranks.
class Turns {
 public:
  Turns(const PipelineMap& map, Schedule& schedule)
      : map_(map), schedule_(schedule), blocks_(static_cast<std::size_t>(map.lanes())) {}

  void add_backbone(int lane) {
    int place = 0;
    for (const Action& pass : schedule_.lists[lane]) {
      TRIB_CHECK(is_pass(pass.op), .what = "schedule: lanes take turns already",
                 .where = map_.describe(lane), .found = to_text(pass));
      blocks_[lane].push_back({.place = place++, .passes = {pass}});
    }
  }

  /// At one place, backwards go before forwards.
  void add_colocated(int lane, const PassGroups& groups, const Places& places) {
    std::map<std::pair<int, bool>, ActionList> passes;  // by place and whether they are forwards
    for (const Action& action : schedule_.lists[lane]) {
      const bool forward = action.op == Op::kForward;
      const std::int64_t pass = groups.pass_of(action.microbatch);
      const int place =
          (forward ? places.forward : places.backward)[static_cast<std::size_t>(pass)];
      passes[{place, forward}].push_back(action);
    }
    std::vector<Block>& blocks = blocks_[lane];
    if (map_.is_ahead(lane)) blocks.push_back({});  // it has the first turn, whatever it does then
    for (const auto& [at, own] : passes) {
      if (blocks.empty() || blocks.back().place != at.first) blocks.push_back({.place = at.first});
      blocks.back().passes.insert(blocks.back().passes.end(), own.begin(), own.end());
    }
  }

  void write() {
    for (int lane = 0; lane < map_.lanes(); ++lane)
      for (const int other : map_.lanes_beside(lane))
        if (lane < other && map_.alternate(map_.at(lane).module, map_.at(other).module))
          pass_turns(lane, other);
    for (int lane = 0; lane < map_.lanes(); ++lane) {
      if (blocks_[lane].empty()) continue;
      ActionList& list = schedule_.lists[lane];
      list.clear();
      for (const Block& block : blocks_[lane])
        for (const ActionList* part : {&block.takes, &block.passes, &block.gives})
          list.insert(list.end(), part->begin(), part->end());
      if (map_.is_colocated(lane)) schedule_.in_flight[lane] = max_kept(list);
    }
  }

 private:
  /// Lets two lanes go over to each other wherever the next block is one of the other.
  void pass_turns(int one, int other) {
    const std::array lanes{one, other};
    std::array<std::size_t, 2> next{};
    std::array<int, 2> given{};
    const auto left = [&](std::size_t of) { return next[of] < blocks_[lanes[of]].size(); };
    const auto key = [&](std::size_t of) {
      return std::pair(blocks_[lanes[of]][next[of]].place, map_.turn_of(lanes[of]));
    };
    std::size_t here = 2;  // none yet
    while (left(0) || left(1)) {
      const std::size_t then = left(0) && (!left(1) || key(0) < key(1)) ? 0 : 1;
      if (then + here == 1) {
        const auto turn = [&](Op op, std::size_t peer) {
          return Action{.op = op, .microbatch = given[here], .peer = lanes[peer]};
        };
        blocks_[lanes[here]][next[here] - 1].gives.push_back(turn(Op::kSendTurn, then));
        blocks_[lanes[then]][next[then]].takes.push_back(turn(Op::kReceiveTurn, here));
        ++given[here];
      }
      here = then;
      ++next[here];
    }
  }

  static int max_kept(const ActionList& list) {
    int kept = 0;
    int max = 0;
    for (const Action& action : list) {
      if (action.op == Op::kForward) max = std::max(max, ++kept);
      if (gives_input_gradient(action.op)) --kept;
    }
    return max;
  }

  const PipelineMap& map_;
  Schedule& schedule_;
  std::vector<std::vector<Block>> blocks_;  // [lanes]
};

/// Places the passes of the modules that take turns with the backbone, stage by stage.
void place_among_backbone(const PipelineMap& map, const Schedule& schedule, Turns& turns) {
  const NominalBackbone backbone(map, schedule);
  for (int stage = 0; stage < backbone.stages(); ++stage) {
    StagePlaces stage_places(backbone, stage);
    for (const int index : map.sharers()) {
      const PipelineModule& module = map.pipeline().modules[index];
      if (!module.takes_turns) continue;
      const int microbatches = map.microbatches_of(index);
      const PassGroups groups = module.groups_of(microbatches);
      const Places places = module.ahead
                                ? stage_places.place_ahead(microbatches > 0 ? groups.passes : 0)
                                : stage_places.place(groups, map.has_backward(index, 0));
      for (int replica = 0; replica < module.replicas; ++replica) {
        const int lane = map.lane_of({.module = index, .replica = replica, .stage = 0});
        const std::vector<int> beside = map.lanes_beside(lane, map.flow().back());
        if (map.at(beside.front()).stage == stage) turns.add_colocated(lane, groups, places);
      }
    }
  }
}

}  // namespace

void take_turns(const PipelineMap& map, Schedule& schedule) {
  const std::vector<PipelineModule>& modules = map.pipeline().modules;
  const bool is_among = std::ranges::any_of(modules, &PipelineModule::takes_turns);
  const bool has_backbone = map.backbone_alternates();
  if (map.sharers().size() <= 2 && !has_backbone) return;
  Turns turns(map, schedule);
  if (is_among) place_among_backbone(map, schedule, turns);
  if (has_backbone)
    for (int lane = 0; lane < map.lanes(); ++lane)
      if (map.at(lane).module == map.flow().back()) turns.add_backbone(lane);
  for (const int index : map.sharers()) {
    const PipelineModule& module = modules[index];
    if (!module.is_colocated() || module.takes_turns) continue;
    const PassGroups all(1, map.pipeline().microbatches);
    for (int replica = 0; replica < module.replicas; ++replica)
      turns.add_colocated(map.lane_of({.module = index, .replica = replica, .stage = 0}), all,
                          {.forward = {kBeforeAll}, .backward = {kAfterAll}});
  }
  turns.write();
}

}  // namespace tributary::schedule
