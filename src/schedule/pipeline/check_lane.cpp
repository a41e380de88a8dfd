#include "schedule/pipeline/check_lane.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "core/text.h"

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
      if (!is_pass(list_[i].op)) others_[identity_of(list_[i])].push_back(i);
    for (int i = 0; i < std::ssize(list_); ++i) {
      if (!is_pass(list_[i].op)) continue;
      const PassTransfers transfers = transfers_of(map_, lane_, list_[i]);
      for (const Action& receive : transfers.receives) take(receive, 0, i);
      for (const Action& send : transfers.sends) take(send, i + 1, end());
    }
    check_reductions();
    for (const auto& [identity, left] : others_)
      for (const int i : left) report(Rule::kKnownAction, i, "which nothing needs");
  }

 private:
  using Identity = std::tuple<Op, int, int>;
  static Identity identity_of(const Action& action) {
    return {action.op, action.chunk, action.microbatch};
  }
  [[nodiscard]] int microbatches() const { return map_.pipeline().microbatches; }
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
    if (last_of_all > 0) take({.op = Op::kOptimizerStep}, end() - 1, end());
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

}  // namespace

void check_lane(const PipelineMap& map, int lane, const ActionList& list, bool lowered,
                std::vector<Violation>& violations) {
  const std::size_t before = violations.size();
  LaneCheck check(map, lane, list, violations);
  check.check_passes();
  if (lowered && violations.size() == before) check.check_transfers();
}

}  // namespace tributary::schedule
