#include <algorithm>
#include <array>
#include <deque>
#include <limits>

#include "schedule/order/all_orders.h"

namespace tributary::schedule {
namespace {

using Time = std::int64_t;

/// Legs of the V: down with chunk 0, up with chunk 1, and back.
enum Leg { kF0, kF1, kB1, kB0 };
constexpr std::array<int, 4> kChunk{0, 1, 1, 0};

enum class Fill { kWhereItFits, kEagerly };

struct Variant {
  Fill forward;
  Fill backward;
};

struct Stage {
  Time clock = 0;
  Time idle = 0;  // since the first forward
  int live = 0;   // chunk activations
  std::array<int, 4> done{};
  std::array<std::vector<Time>, 4> end;
  std::deque<Action> weights;  // waiting
  ActionList list;
};

Time longest_idle(const std::vector<Time>& idle) {
  return *std::max_element(idle.begin(), idle.end());
}

/// The mean over all virtual stages: run_round() keeps the stages in step only with equal times.
PassTimes mean_of(const std::vector<PassTimes>& times) {
  if (times.empty()) return {};
  PassTimes sum{{0}, {0}, {0}};
  for (const PassTimes& each : times) {
    sum.forward += each.forward;
    sum.backward_input += each.backward_input;
    sum.backward_weight += each.backward_weight;
  }
  const Time count = std::ssize(times);
  return {{sum.forward.count / count},
          {sum.backward_input.count / count},
          {sum.backward_weight.count / count}};
}

/// Builds all lists together, with a clock for each stage.
class Builder {
 public:
  Builder(const OrderShape& shape, Variant variant, const std::vector<Time>& earlier_idle)
      : shape_(shape),
        times_(mean_of(shape.times)),
        variant_(variant),
        earlier_idle_(earlier_idle),
        capacity_(2 * shape.stages),
        stages_(static_cast<std::size_t>(shape.stages)) {}

  void build() {
    descend();
    level();
    for (int round = 0; round < 2 * shape_.microbatches; ++round) run_round();
    for (int i = 0; i < shape_.stages; ++i)
      while (!stages_[i].weights.empty()) run_weight(i);
  }

  [[nodiscard]] std::vector<Time> idle() const {
    std::vector<Time> idle;
    for (const Stage& stage : stages_) idle.push_back(stage.idle);
    return idle;
  }
  [[nodiscard]] StageLists take_lists() {
    StageLists lists;
    for (Stage& stage : stages_) lists.push_back(std::move(stage.list));
    return lists;
  }

 private:
  [[nodiscard]] Time cost(Leg leg) const {
    return leg == kF0 || leg == kF1 ? times_.forward.count : times_.backward_input.count;
  }
  /// The stage that the pass comes from; null at the ends of a leg.
  [[nodiscard]] const Stage* before(Leg leg, int i) const {
    const int from = leg == kF0 || leg == kB1 ? i - 1 : i + 1;
    return from >= 0 && from < shape_.stages ? &stages_[from] : nullptr;
  }
  /// Whether the previous stage has run the pass that is next here, or there is no previous stage.
  [[nodiscard]] bool arrives(Leg leg, int i) const {
    const Stage* from = before(leg, i);
    return from == nullptr || from->done[leg] > stages_[i].done[leg];
  }
  [[nodiscard]] Time arrival(Leg leg, int i) const {
    const Stage* from = before(leg, i);
    return from == nullptr ? std::numeric_limits<Time>::min() / 2
                           : from->end[leg][stages_[i].done[leg]] + shape_.hop.count;
  }
  [[nodiscard]] Time gap(Leg leg, int i) const { return arrival(leg, i) - stages_[i].clock; }

  /// How much longer this stage may idle without becoming the worst one.
  [[nodiscard]] Time slack(int i) const {
    Time worst = longest_idle(idle());
    if (!earlier_idle_.empty())
      worst = std::max(worst, longest_idle(earlier_idle_) - earlier_idle_[i]);
    return worst - stages_[i].idle;
  }

  void run_weight(int i) {
    Stage& stage = stages_[i];
    stage.clock += times_.backward_weight.count;
    stage.list.push_back(stage.weights.front());
    stage.weights.pop_front();
    --stage.live;
  }

  void run(Leg leg, int i) {
    Stage& stage = stages_[i];
    const Time start = std::max(stage.clock, arrival(leg, i));
    if (stage.done[kF0] > 0) stage.idle += start - stage.clock;
    stage.clock = start + cost(leg);
    const int microbatch = stage.done[leg]++;
    stage.end[leg].push_back(stage.clock);
    const bool forward = leg == kF0 || leg == kF1;
    stage.list.push_back({.op = forward ? Op::kForward : Op::kBackwardInput,
                          .chunk = kChunk[leg],
                          .microbatch = microbatch});
    if (forward) {
      ++stage.live;
    } else {
      stage.weights.push_back(
          {.op = Op::kBackwardWeight, .chunk = kChunk[leg], .microbatch = microbatch});
    }
  }

  void fill(Leg leg, int i, Fill how) {
    const Stage& stage = stages_[i];
    while (!stage.weights.empty() && gap(leg, i) >= times_.backward_weight.count) run_weight(i);
    if (how == Fill::kEagerly && !stage.weights.empty() && gap(leg, i) > slack(i)) run_weight(i);
  }

  /// Runs the first microbatch down and up; stages that wait for it run more forwards down.
  void descend() {
    for (int i = 0; i < shape_.stages; ++i) run(kF0, i);
    for (int i = shape_.stages - 1; i >= 0; --i) {
      while (i < shape_.stages - 1 && stages_[i].live + 2 + 2 * i <= capacity_ &&
             stages_[i].clock + cost(kF0) <= arrival(kF1, i) &&
             stages_[i].done[kF0] < shape_.microbatches)
        for (int j = 0; j <= i; ++j) run(kF0, j);
      run(kF1, i);
    }
  }

  /// Lets lower stages catch up with upper ones, chunks in turn.
  void level() {
    Leg leg = kF0;
    for (int i = 1; i < shape_.stages; ++i) {
      const auto is_behind = [&] {
        const auto& own = stages_[i].done;
        const auto& above = stages_[i - 1].done;
        return own[kF0] + own[kF1] < above[kF0] + above[kF1] ||
               (own[kF1] <= above[kF1] && above[kF1] < shape_.microbatches);
      };
      while (is_behind()) {
        for (int j = shape_.stages - 1; j >= i; --j)
          if (stages_[j].done[leg] < shape_.microbatches) run(leg, j);
        leg = leg == kF0 ? kF1 : kF0;
      }
    }
  }

  [[nodiscard]] Leg next_backward(int i) const {
    const auto& done = stages_[i].done;
    if (done[kB0] >= done[kB1]) return kB1;
    return arrives(kB0, i) || done[kB1] >= shape_.microbatches ? kB0 : kB1;
  }

  void run_next_forward(int i) {
    Stage& stage = stages_[i];
    const auto& done = stage.done;
    if (done[kF1] >= shape_.microbatches) return;
    Leg leg = kF0;
    if (done[kF1] < done[kF0]) {
      if (arrives(kF1, i)) {
        leg = kF1;
      } else if (done[kF0] >= shape_.microbatches || !arrives(kF0, i)) {
        return;
      }
    }
    while (stage.live + 1 > capacity_) run_weight(i);
    fill(leg, i, variant_.forward);
    run(leg, i);
  }

  /// Runs one backward and one forward on each stage.
  void run_round() {
    std::vector<Leg> backward;
    for (int i = 0; i < shape_.stages; ++i) backward.push_back(next_backward(i));
    for (int i = shape_.stages - 1; i >= 0; --i) {
      if (backward[i] != kB0) continue;
      fill(kB0, i, Fill::kEagerly);
      run(kB0, i);
    }
    for (int i = 0; i < shape_.stages; ++i) {
      if (backward[i] != kB1) continue;
      fill(kB1, i, variant_.backward);
      run(kB1, i);
    }
    for (int i = 0; i < shape_.stages; ++i) run_next_forward(i);
  }

  const OrderShape& shape_;
  PassTimes times_;
  Variant variant_;
  const std::vector<Time>& earlier_idle_;
  int capacity_;
  std::vector<Stage> stages_;
};

struct Built {
  StageLists lists;
  std::vector<Time> idle;
};

/// Builds again with the idle times of the first attempt, while that helps.
Built build(const OrderShape& shape, Variant variant, const std::vector<Time>& earlier_idle) {
  Builder builder(shape, variant, earlier_idle);
  builder.build();
  Built built{builder.take_lists(), builder.idle()};
  if (earlier_idle.empty() || longest_idle(built.idle) < longest_idle(earlier_idle)) {
    Built again = build(shape, variant, built.idle);
    if (longest_idle(again.idle) < longest_idle(built.idle)) return again;
  }
  return built;
}

}  // namespace

StageLists list_zb_v(const OrderShape& shape) {
  using enum Fill;
  Built best;
  for (const Variant variant :
       {Variant{kEagerly, kEagerly}, Variant{kWhereItFits, kEagerly},
        Variant{kEagerly, kWhereItFits}, Variant{kWhereItFits, kWhereItFits}}) {
    Built built = build(shape, variant, {});
    if (best.lists.empty() || longest_idle(built.idle) < longest_idle(best.idle))
      best = std::move(built);
  }
  return std::move(best.lists);
}

}  // namespace tributary::schedule
