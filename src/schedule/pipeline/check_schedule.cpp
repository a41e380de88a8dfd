#include "schedule/pipeline/check_schedule.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "core/error.h"
#include "core/text.h"
#include "schedule/pipeline/dependency_graph.h"
#include "schedule/pipeline/in_flight.h"

namespace tributary::schedule {
namespace {

constexpr int kAbsent = -1;

class LaneCheck {
 public:
  LaneCheck(const PipelineMap& map, int lane, const ActionList& list,
            std::vector<Violation>& violations)
      : map_(map),
        lane_(lane),
        list_(list),
        violations_(violations),
        of_(map.at(lane)),
        module_(map.pipeline().modules[of_.module]),
        places_(std::size_t{3} * module_.chunks * microbatches(), kAbsent) {}

  void check_passes() {
    for (int i = 0; i < std::ssize(list_); ++i)
      if (is_pass(list_[i].op)) place_pass(i);
    for (int chunk = 0; chunk < module_.chunks; ++chunk) {
      int last_weight = kAbsent;
      for (int microbatch = 0; microbatch < microbatches(); ++microbatch)
        check_microbatch(chunk, microbatch, last_weight);
    }
  }

  void check_transfers() {
    for (int i = 0; i < std::ssize(list_); ++i)
      if (!is_pass(list_[i].op) && !is_turn(list_[i].op))
        others_[identity_of(list_[i])].push_back(i);
    for (int i = 0; i < std::ssize(list_); ++i) {
      if (!is_pass(list_[i].op)) continue;
      const PassTransfers transfers = transfers_of(map_, lane_, list_[i]);
      for (const Action& receive : transfers.receives) take(receive, 0, i);
      for (const Action& send : transfers.sends) take(send, i + 1, end());
    }
    for (const Action& receive : receives_ahead(map_, lane_)) take(receive, 0, end());
    check_reductions();
    for (const auto& [identity, left] : others_)
      for (const int i : left) report(Rule::kKnownAction, i, "which nothing needs");
  }

  /// Follows which lanes have the ranks: at first those of the module that begins a step.
  void check_turns() {
    std::map<int, Turn> turns;  // by the other lane
    for (const int module : map_.sharers()) {
      if (!map_.alternate(of_.module, module)) continue;
      for (const int other : map_.lanes_beside(lane_, module))
        turns[other].is_here = map_.turn_of(lane_) < map_.turn_of(other);
    }
    for (int i = 0; i < std::ssize(list_); ++i) {
      const Action& action = list_[i];
      if (is_pass(action.op) &&
          std::ranges::any_of(turns, [](const auto& turn) { return !turn.second.is_here; }))
        report(Rule::kTurns, i, "while another lane has its ranks");
      if (!is_turn(action.op)) continue;
      const bool gives = action.op == Op::kSendTurn;
      const auto turn = turns.find(action.peer);
      if (turn == turns.end() || turn->second.is_here != gives)
        return report(Rule::kTurns, i,
                      gives ? "while it does not have the ranks" : "while it has the ranks");
      turn->second.is_here = !gives;
      int& number = gives ? turn->second.given : turn->second.taken;
      if (action.microbatch != number++) return report(Rule::kTurns, i, "which is out of turn");
    }
  }

 private:
  struct Turn {
    bool is_here = false;
    int given = 0;
    int taken = 0;
  };
  using Identity = std::tuple<Op, int, int>;
  static Identity identity_of(const Action& action) {
    return {action.op, action.chunk, action.microbatch};
  }
  [[nodiscard]] int microbatches() const { return map_.microbatches_of(of_.module); }
  [[nodiscard]] int end() const { return static_cast<int>(std::ssize(list_)); }

  void report(Rule rule, const std::string& found) {
    violations_.push_back({.rule = rule, .where = map_.describe(lane_), .found = found});
  }
  void report(Rule rule, int place, const std::string& why) {
    report(rule, str(to_text(list_[place]), " at ", place, ", ", why));
  }

  int& place_of(int kind, int chunk, int microbatch) {
    return places_[(3 * chunk + kind) * microbatches() + microbatch];
  }

  void place_pass(int i) {
    const Action& pass = list_[i];
    const bool exists = pass.chunk >= 0 && pass.chunk < module_.chunks && pass.microbatch >= 0 &&
                        pass.microbatch < microbatches();
    if (!exists) return report(Rule::kKnownAction, i, "which the pipeline does not have");
    const int virtual_stage = map_.virtual_stage(of_.module, of_.stage, pass.chunk);
    if (pass.op != Op::kForward && !map_.has_backward(of_.module, virtual_stage))
      return report(Rule::kKnownAction, i, "where nothing is to be differentiated");
    if (gives_weight_gradient(pass.op) && !module_.has_weights_of(virtual_stage))
      return report(Rule::kKnownAction, i, "where the weights are frozen");
    const std::array<bool, 3> gives{pass.op == Op::kForward, gives_input_gradient(pass.op),
                                    gives_weight_gradient(pass.op)};
    for (int kind = 0; kind < 3; ++kind) {
      if (!gives[kind]) continue;
      int& place = place_of(kind, pass.chunk, pass.microbatch);
      if (place != kAbsent) return report(Rule::kOnce, i, str("done already at ", place));
      place = i;
    }
  }

  void check_microbatch(int chunk, int microbatch, int& last_weight) {
    const int virtual_stage = map_.virtual_stage(of_.module, of_.stage, chunk);
    const int forward = place_of(0, chunk, microbatch);
    const int backward = place_of(1, chunk, microbatch);
    const int weight = place_of(2, chunk, microbatch);
    const auto require = [&](int place, Op op) {
      if (place == kAbsent)
        report(Rule::kComplete,
               str("no ", to_text({.op = op, .chunk = chunk, .microbatch = microbatch})));
    };
    require(forward, Op::kForward);
    if (!map_.has_backward(of_.module, virtual_stage)) return;
    require(backward, Op::kBackwardInput);
    if (backward != kAbsent && backward < forward)
      report(Rule::kPassOrder, backward, str("before its forward at ", forward));
    if (!module_.has_weights_of(virtual_stage)) return;
    require(weight, Op::kBackwardWeight);
    if (weight == kAbsent) return;
    if (weight < backward)
      report(Rule::kPassOrder, weight, str("before its input gradient at ", backward));
    if (weight < last_weight)
      report(Rule::kWeightOrder, weight,
             str("before that of an earlier microbatch at ", last_weight));
    last_weight = std::max(last_weight, weight);
  }

  /// Removes the action that a pass needs from the others; it must be in [from, until).
  void take(const Action& needed, int from, int until) {
    std::vector<int>& places = others_[identity_of(needed)];
    auto found = std::find_if(places.begin(), places.end(),
                              [&](int i) { return list_[i].peer == needed.peer; });
    if (found == places.end()) {
      // Several edges share an identity, so an action with another peer may belong to another edge.
      const bool is_unique = stream_of(needed.op) != Stream::kFeatures;
      if (places.empty() || !is_unique)
        return report(Rule::kComplete, str("no ", to_text(needed), peer_text(needed)));
      found = places.begin();
      report(Rule::kPeer, *found,
             str("with peer ", list_[*found].peer, " in place of ", needed.peer));
    } else if (*found < from || *found >= until) {
      report(
          Rule::kTransferPlace, *found,
          is_receive(needed.op) ? "after the pass that uses it" : "before the pass that gives it");
    }
    const int taken = *found;
    places.erase(found);
    const bool again = std::any_of(places.begin(), places.end(),
                                   [&](int i) { return list_[i].peer == needed.peer; });
    if (!again) return;
    report(Rule::kOnce, taken, "which is there again");
    places.erase(std::remove_if(places.begin(), places.end(),
                                [&](int i) { return list_[i].peer == needed.peer; }),
                 places.end());
  }

  static std::string peer_text(const Action& action) {
    return action.peer < 0 ? "" : str(" with peer ", action.peer);
  }

  void check_reductions() {
    int last_of_all = 0;
    for (int chunk = 0; chunk < module_.chunks; ++chunk) {
      int last = kAbsent;
      for (int microbatch = 0; microbatch < microbatches(); ++microbatch)
        last = std::max(last, place_of(2, chunk, microbatch));
      if (last == kAbsent) continue;
      take({.op = Op::kReduceGradients, .chunk = chunk}, last + 1, end());
      last_of_all = std::max(last_of_all, last);
    }
    if (last_of_all > 0 || map_.is_ahead(lane_)) take({.op = Op::kOptimizerStep}, end() - 1, end());
  }

  const PipelineMap& map_;
  int lane_;
  const ActionList& list_;
  std::vector<Violation>& violations_;
  Lane of_;
  const PipelineModule& module_;
  std::vector<int> places_;  // [chunks][F, B, W][microbatches]
  std::map<Identity, std::vector<int>> others_;
};

/// Checks the list of one lane against the rules that need no other lane.
///
/// units: lowered: whether transfers, reductions and the step must be in the list
void check_lane(const PipelineMap& map, int lane, const ActionList& list, bool lowered,
                std::vector<Violation>& violations) {
  const std::size_t before = violations.size();
  LaneCheck check(map, lane, list, violations);
  check.check_passes();
  check.check_turns();
  if (lowered && violations.size() == before) check.check_transfers();
}

bool is_lowered(const Schedule& schedule) {
  for (const ActionList& list : schedule.lists)
    for (const Action& action : list)
      if (!is_pass(action.op) && !is_turn(action.op)) return true;
  return false;
}

/// Checks the rules between lanes, for lists that obey the rules of a lane.
class LinksCheck {
 public:
  LinksCheck(const PipelineMap& map, const Schedule& schedule, const Buffers& buffers,
             std::vector<Violation>& violations)
      : map_(map), schedule_(schedule), buffers_(buffers), violations_(violations) {}

  /// Checks that each link is read in the order in which it is written.
  void check_orders() {
    // The key of a link is its receiving side: op, from, to, edge.
    std::map<std::tuple<Op, int, int, int>, std::vector<Action>> sent;
    std::map<std::tuple<Op, int, int, int>, std::vector<Action>> received;
    for (int lane = 0; lane < map_.lanes(); ++lane) {
      for (const Action& action : schedule_.lists[lane]) {
        if (!is_send(action.op) && !is_receive(action.op)) continue;
        for (const FarEnd& far : far_ends_of(map_, lane, action)) {
          const bool sends = is_send(action.op);
          const Action& arrives = sends ? far.action : action;
          const int edge = stream_of(action.op) == Stream::kFeatures ? action.peer : -1;
          const int from = sends ? lane : far.lane;
          const int to = sends ? far.lane : lane;
          (sends ? sent : received)[{arrives.op, from, to, edge}].push_back(arrives);
        }
      }
    }
    for (const auto& [link, messages] : received)
      compare(std::get<1>(link), std::get<2>(link), sent[link], messages);
  }

  /// Counts receives that are posted and not yet used.
  void check_receive_buffers(int lane) {
    std::map<std::pair<Op, int>, int> posted;
    for (const Action& action : schedule_.lists[lane]) {
      const bool has_all = stream_of(action.op) == Stream::kFeatures && is_receive(action.op) &&
                           (map_.goes_in_one_batch(action.peer) || map_.carries_ahead(action.peer));
      if (is_receive(action.op) && !is_turn(action.op) && !has_all &&
          ++posted[{action.op, action.peer}] > buffers_.receive)
        violations_.push_back(
            {.rule = Rule::kReceiveBuffers,
             .where = map_.describe(lane),
             .found = str(to_text(action), " is posted while ", buffers_.receive,
                          " of its link are not used yet, which are all its buffers")});
      if (is_pass(action.op))
        for (const Action& used : transfers_of(map_, lane, action).receives)
          --posted[{used.op, used.peer}];
    }
  }

 private:
  void compare(int from, int to, const std::vector<Action>& sent,
               const std::vector<Action>& received) {
    const auto [send, receive] =
        std::mismatch(sent.begin(), sent.end(), received.begin(), received.end(),
                      [](const Action& a, const Action& b) {
                        return a.chunk == b.chunk && a.microbatch == b.microbatch;
                      });
    if (send == sent.end() && receive == received.end()) return;
    const auto text = [](const std::vector<Action>& messages, auto at) {
      return at == messages.end() ? std::string("nothing") : to_text(*at);
    };
    violations_.push_back(
        {.rule = Rule::kLinkOrder,
         .where = map_.describe(to),
         .found = str("message ", send - sent.begin(), " from ", map_.describe(from), " is for ",
                      text(sent, send), " and taken by ", text(received, receive))});
  }

  const PipelineMap& map_;
  const Schedule& schedule_;
  const Buffers& buffers_;
  std::vector<Violation>& violations_;
};

void check_in_flight(const PipelineMap& map, const Schedule& schedule,
                     std::vector<Violation>& violations) {
  for (int lane = 0; lane < map.lanes(); ++lane) {
    const std::int64_t peak = peak_in_flight(map, lane, schedule.lists[lane]);
    if (peak > schedule.in_flight[lane])
      violations.push_back({.rule = Rule::kInFlight,
                            .where = map.describe(lane),
                            .found = str(peak, " chunk activations at once, ",
                                         schedule.in_flight[lane], " are promised")});
  }
}

}  // namespace

std::string_view name_of(Rule rule) {
  switch (rule) {
    case Rule::kKnownAction:
      return "every action is needed";
    case Rule::kOnce:
      return "nothing is there twice";
    case Rule::kComplete:
      return "nothing is missing";
    case Rule::kPassOrder:
      return "forward, input gradient, weight gradient";
    case Rule::kWeightOrder:
      return "weight gradients in data order";
    case Rule::kPeer:
      return "a transfer goes where its pass leads";
    case Rule::kTransferPlace:
      return "receive, pass, send";
    case Rule::kLinkOrder:
      return "a link is read as it is written";
    case Rule::kReceiveBuffers:
      return "receives have buffers";
    case Rule::kDeadlock:
      return "no deadlock";
    case Rule::kInFlight:
      return "activations in flight as promised";
    case Rule::kTurns:
      return "one lane of a rank at a time";
  }
  return "";
}

std::vector<Violation> check_schedule(const Schedule& schedule, const Buffers& buffers) {
  const PipelineMap map(schedule.pipeline);
  std::vector<Violation> violations;
  TRIB_REQUIRE(
      std::ssize(schedule.lists) == map.lanes() && std::ssize(schedule.in_flight) == map.lanes(),
      .what = "schedule: not one list for each lane",
      .found = str(schedule.lists.size(), " lists, ", schedule.in_flight.size(), " promises"),
      .expected = str(map.lanes()));
  const bool lowered = is_lowered(schedule);
  for (int lane = 0; lane < map.lanes(); ++lane)
    check_lane(map, lane, schedule.lists[lane], lowered, violations);
  if (!violations.empty()) return violations;
  LinksCheck links(map, schedule, buffers, violations);
  links.check_orders();
  for (int lane = 0; lane < map.lanes(); ++lane) links.check_receive_buffers(lane);
  check_in_flight(map, schedule, violations);
  if (!violations.empty()) return violations;
  const DependencyGraph graph(schedule, map, buffers);
  if (!graph.blocked().empty())
    violations.push_back({.rule = Rule::kDeadlock,
                          .where = map.describe(graph.blocked().front().lane),
                          .found = describe_deadlock(graph, map)});
  return violations;
}

void require_valid(const Schedule& schedule, const Buffers& buffers) {
  const std::vector<Violation> violations = check_schedule(schedule, buffers);
  if (violations.empty()) return;
  constexpr std::size_t kMaxShown = 20;
  std::string list;
  for (std::size_t i = 0; i < std::min(violations.size(), kMaxShown); ++i)
    list += str("\n  ", violations[i].where, ": ", violations[i].found,
                " (rule: ", name_of(violations[i].rule), ")");
  TRIB_RAISE(Fault::kInput, .what = "schedule: action lists break the rules of their pipeline",
             .found = str(violations.size(), " violations", list));
}

}  // namespace tributary::schedule
