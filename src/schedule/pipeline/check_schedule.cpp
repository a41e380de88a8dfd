#include "schedule/pipeline/check_schedule.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/error.h"
#include "schedule/pipeline/check_lane.h"
#include "schedule/pipeline/dependency_graph.h"
#include "schedule/pipeline/in_flight.h"

namespace tributary::schedule {
namespace {

bool is_lowered(const Schedule& schedule) {
  for (const ActionList& list : schedule.lists)
    for (const Action& action : list)
      if (!is_pass(action.op)) return true;
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
                           map_.goes_in_one_batch(action.peer);
      if (is_receive(action.op) && !has_all &&
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
  constexpr std::size_t kMostShown = 20;
  std::string list;
  for (std::size_t i = 0; i < std::min(violations.size(), kMostShown); ++i)
    list += str("\n  ", violations[i].where, ": ", violations[i].found,
                " (rule: ", name_of(violations[i].rule), ")");
  TRIB_RAISE(Fault::kInput, .what = "schedule: action lists break the rules of their pipeline",
             .found = str(violations.size(), " violations", list));
}

}  // namespace tributary::schedule
