#include "schedule/pipeline/take_turns.h"

#include <algorithm>
#include <limits>
#include <optional>

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

/// Places the passes of a colocated module on one stage.
class StagePlaces {
 public:
  /// The pass of the backbone before which each pass runs; the number of passes: after them all.
  struct Places {
    std::vector<int> forward;   // [passes of the colocated module]
    std::vector<int> backward;  // likewise; empty: it has none
    int end = 0;                // after all passes of the backbone
  };

  StagePlaces(const NominalBackbone& backbone, const PassGroups& groups, int stage)
      : backbone_(backbone),
        groups_(groups),
        stage_(stage),
        used_(static_cast<std::size_t>(backbone.passes(stage)) + 1) {}

  Places place(bool has_backward) {
    Places places{.forward = {}, .backward = {}, .end = backbone_.passes(stage_)};
    for (std::int64_t pass = 0; pass < groups_.passes; ++pass)
      places.forward.push_back(place_forward(pass, places.forward));
    for (std::int64_t pass = 0; has_backward && pass < groups_.passes; ++pass)
      places.backward.push_back(place_backward(pass, places.backward));
    return places;
  }

 private:
  int place_forward(std::int64_t pass, const std::vector<int>& before) {
    const int least = before.empty() ? 0 : before.back();
    const Time needed = backbone_.begin_of(groups_.first_of(pass));
    const auto found = longest_gap(least, 0, needed, kForward);
    if (found) return *found;
    const Time ahead = backbone_.begin_of(groups_.first_of(std::max<std::int64_t>(0, pass - 1)));
    int last = least;
    while (last < backbone_.passes(stage_) && backbone_.gap_begin(stage_, last + 1) <= ahead)
      ++last;
    return last;
  }

  int place_backward(std::int64_t pass, const std::vector<int>& before) {
    const int least = before.empty() ? 0 : before.back();
    const auto found = longest_gap(least, given(pass), kForever, kBackward);
    if (found) return *found;
    if (pass + 1 == groups_.passes) return backbone_.passes(stage_);
    int first = least;
    while (first < backbone_.passes(stage_) && backbone_.gap_end(stage_, first) < given(pass + 1))
      ++first;
    return first;
  }

  /// When the gradients of a pass are there.
  [[nodiscard]] Time given(std::int64_t pass) const {
    return backbone_.gradient_of(groups_.first_of(pass + 1) - 1);
  }

  /// The place from `least` on with the longest gap between two times, the first one of equals,
  /// less what is placed there already; none where no gap is left.
  std::optional<int> longest_gap(int least, Time from, Time until, Time length) {
    std::optional<int> found;
    Time longest = 0;
    for (int next = least; next <= backbone_.passes(stage_); ++next) {
      const Time begin = std::max(from, backbone_.gap_begin(stage_, next));
      const Time end = std::min(until, backbone_.gap_end(stage_, next));
      const Time left = end - begin - used_[static_cast<std::size_t>(next)];
      if (left <= longest) continue;
      longest = left;
      found = next;
    }
    if (found) used_[static_cast<std::size_t>(*found)] += length;
    return found;
  }

  const NominalBackbone& backbone_;
  const PassGroups& groups_;
  int stage_;
  std::vector<Time> used_;  // [places]
};

/// Writes both lists of a colocated lane's ranks.
class Turns {
 public:
  Turns(const PipelineMap& map, const PassGroups& groups, Schedule& schedule)
      : map_(map), groups_(groups), schedule_(schedule) {}

  void write(int stage, const StagePlaces::Places& places) {
    for (int lane = 0; lane < map_.lanes(); ++lane) {
      const std::vector<int> beside = map_.lanes_beside(lane);
      if (beside.empty()) continue;
      if (map_.is_colocated(lane) && map_.at(beside.front()).stage == stage)
        write_colocated(lane, beside, places);
      if (map_.at(lane).module == map_.flow().back() && map_.at(lane).stage == stage)
        write_backbone(lane, beside, places);
    }
  }

 private:
  /// Whether some pass of the colocated module runs before pass `next` of the backbone.
  static bool has_turn(const StagePlaces::Places& places, int next) {
    return std::ranges::find(places.forward, next) != places.forward.end() ||
           std::ranges::find(places.backward, next) != places.backward.end();
  }
  static int last_place(const StagePlaces::Places& places) {
    return std::max(places.forward.back(), places.backward.empty() ? 0 : places.backward.back());
  }

  /// Lets the ranks of a lane go over to others, or come back from them, for the `number`-th time.
  static void pass_turn(Op op, int number, const std::vector<int>& others, ActionList& list) {
    for (const int other : others) list.push_back({.op = op, .microbatch = number, .peer = other});
  }

  void write_colocated(int lane, const std::vector<int>& beside,
                       const StagePlaces::Places& places) {
    const ActionList before = schedule_.lists[lane];
    ActionList list;
    int turns = 0;
    const auto add_pass = [&](std::int64_t pass, bool forward) {
      const bool is_last = pass + 1 == groups_.passes;
      const auto end =
          is_last ? std::int64_t{map_.pipeline().microbatches} : groups_.first_of(pass + 1);
      for (const Action& action : before)
        if ((action.op == Op::kForward) == forward && action.microbatch >= groups_.first_of(pass) &&
            action.microbatch < end)
          list.push_back(action);
    };
    for (int next = 0; next <= last_place(places); ++next) {
      if (!has_turn(places, next)) continue;
      if (turns > 0) pass_turn(Op::kReceiveTurn, turns - 1, beside, list);
      for (std::size_t pass = 0; pass < places.backward.size(); ++pass)
        if (places.backward[pass] == next) add_pass(static_cast<std::int64_t>(pass), false);
      for (std::size_t pass = 0; pass < places.forward.size(); ++pass)
        if (places.forward[pass] == next) add_pass(static_cast<std::int64_t>(pass), true);
      if (next < places.end) pass_turn(Op::kSendTurn, turns++, beside, list);
    }
    schedule_.lists[lane] = std::move(list);
    schedule_.in_flight[lane] = most_kept(schedule_.lists[lane]);
  }

  void write_backbone(int lane, const std::vector<int>& beside, const StagePlaces::Places& places) {
    const ActionList before = std::move(schedule_.lists[lane]);
    ActionList list;
    int turns = 0;
    for (int next = 0; next <= std::ssize(before); ++next) {
      if (has_turn(places, next)) {
        if (turns > 0) pass_turn(Op::kSendTurn, turns - 1, beside, list);
        if (next < std::ssize(before)) pass_turn(Op::kReceiveTurn, turns++, beside, list);
      }
      if (next == std::ssize(before)) break;
      TRIB_CHECK(is_pass(before[next].op), .what = "schedule: lanes take turns already",
                 .where = map_.describe(lane), .found = to_text(before[next]));
      list.push_back(before[next]);
    }
    schedule_.lists[lane] = std::move(list);
  }

  static int most_kept(const ActionList& list) {
    int kept = 0;
    int most = 0;
    for (const Action& action : list) {
      if (action.op == Op::kForward) most = std::max(most, ++kept);
      if (gives_input_gradient(action.op)) --kept;
    }
    return most;
  }

  const PipelineMap& map_;
  const PassGroups& groups_;
  Schedule& schedule_;
};

}  // namespace

void take_turns(const PipelineMap& map, Schedule& schedule) {
  const PipelineModule& colocated = map.pipeline().modules[map.colocated()];
  const PassGroups groups = colocated.groups_of(map.pipeline().microbatches);
  const NominalBackbone backbone(map, schedule);
  Turns turns(map, groups, schedule);
  for (int stage = 0; stage < backbone.stages(); ++stage)
    turns.write(stage,
                StagePlaces(backbone, groups, stage).place(map.has_backward(map.colocated(), 0)));
}

}  // namespace tributary::schedule
