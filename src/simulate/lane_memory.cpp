#include "simulate/lane_memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "core/error.h"

namespace tributary::simulate {
namespace {

using schedule::Op;

struct Change {
  Nanoseconds time;
  int order = 0;  // at one time, what is freed comes first
  Bytes activations;
  Bytes features;
};

bool is_before(const Change& a, const Change& b) {
  return std::tie(a.time, a.order) < std::tie(b.time, b.order);
}

/// The changes in one lane's memory, in the order of time.
class LaneChanges {
 public:
  LaneChanges(const StepProgram& program, const StepLoad& load, const StepTimes& times,
              const cost::StageCosts& stages, std::span<const cost::StageCost> costs, int lane)
      : program_(program),
        load_(load),
        times_(times),
        stages_(stages),
        costs_(costs),
        of_(program.map().at(lane)) {
    for (int action = program.first_action(lane); action < program.first_action(lane + 1);
         ++action) {
      if (program.kind(action) == StepKind::kPass) add_pass(action);
      if (program.kind(action) == StepKind::kSend) add_send(action);
      if (program.kind(action) == StepKind::kReceive) add_ahead(action);
    }
    std::ranges::stable_sort(changes_, is_before);
  }
  [[nodiscard]] const std::vector<Change>& list() const { return changes_; }

 private:
  void hold(Nanoseconds from, Bytes activations, Bytes features = {}) {
    changes_.push_back(
        {.time = from, .order = 1, .activations = activations, .features = features});
  }
  void free(Nanoseconds at, Bytes activations, Bytes features = {}) {
    changes_.push_back({.time = at,
                        .order = 0,
                        .activations = Bytes{} - activations,
                        .features = Bytes{} - features});
  }

  void add_pass(int action) {
    const cost::StageCost& cost = costs_[action];
    const ActionTimes& at = times_.actions[action];
    const schedule::Action& pass = program_.action(action);
    for (const int message : program_.messages_of(action)) {
      // What arrives along an edge is held until the end of the pass that uses it.
      if (!is_on_edge(message) || program_.user_of(message) != action) continue;
      const Bytes bytes = bytes_here(message);
      hold(times_.messages[message].arrived, {}, bytes);
      free(at.end, {}, used_by(pass, message, bytes));
      hold_later_batches(message, bytes);
    }
    const int virtual_stage = program_.map().virtual_stage(of_.module, of_.stage, pass.chunk);
    const bool has_backward = program_.map().has_backward(of_.module, virtual_stage);
    const bool trains = program_.pipeline().modules[of_.module].has_weights_of(virtual_stage);
    switch (pass.op) {
      case Op::kForward:
        hold(at.start, cost.kept + cost.forward_peak);
        free(at.end, has_backward ? cost.forward_peak : cost.kept + cost.forward_peak);
        break;
      case Op::kBackward:
        hold(at.start, cost.backward_peak);
        free(at.end, cost.kept + cost.backward_peak);
        break;
      case Op::kBackwardInput:
        hold(at.start, cost.backward_peak);
        free(at.end, cost.kept + cost.backward_peak);
        if (trains) hold(at.end, cost.kept_after_input_gradient);
        break;
      default:
        free(at.end, cost.kept_after_input_gradient);
        break;
    }
  }

  /// Bytes that a pass frees. When a colocated module gives all features at once, each microbatch
  /// frees its own part; otherwise a pass frees the message.
  Bytes used_by(const schedule::Action& pass, int message, Bytes bytes) {
    const Channel& channel = program_.channel_of(message);
    if (channel.op != Op::kSendFeatures || !program_.map().goes_in_one_batch(channel.edge))
      return bytes;
    Bytes& all = batch_[program_.messages()[message].channel];
    if (all.count == 0)
      for (int i = 0; i < channel.messages; ++i) all += bytes_here(channel.first_message + i);
    const std::int64_t parts = channel.messages;
    return {all.count * (pass.microbatch + 1) / parts - all.count * pass.microbatch / parts};
  }

  /// Adds whole batches that wait: those of later steps arrive as this one, each a step later.
  void hold_later_batches(int message, Bytes bytes) {
    if (times_.before.empty() || !program_.comes_in_whole_batches(program_.channel_of(message)))
      return;
    Nanoseconds arrives = times_.makespan - times_.before[message];
    for (int i = 0; i < times_.batches_ahead && arrives < times_.makespan; ++i) {
      hold(std::max(Nanoseconds{}, arrives), {}, bytes);
      arrives += times_.makespan;
    }
  }

  /// Features for the step after are held from their arrival on, and those for this step, which
  /// arrived in the step before, until the pass that uses them ends.
  void add_ahead(int receive) {
    const schedule::Action& of = program_.action(receive);
    if (schedule::stream_of(of.op) != schedule::Stream::kFeatures ||
        !program_.map().carries_ahead(of.peer))
      return;
    const int user = program_.pass_at(program_.lane_of(receive), StepProgram::Pass::kForward,
                                      of.chunk, of.microbatch);
    for (const int message : program_.messages_of(receive)) {
      const Bytes bytes = bytes_here(message);
      hold({}, {}, bytes);
      free(times_.actions[user].end, {}, bytes);
      hold(std::min(times_.messages[message].arrived, times_.makespan), {}, bytes);
    }
  }

  /// Output along an edge is held by the sender until it has arrived.
  void add_send(int action) {
    for (const int message : program_.messages_of(action)) {
      if (!is_on_edge(message)) continue;
      const Bytes bytes = bytes_here(message);
      hold(times_.messages[message].given, {}, bytes);
      free(times_.messages[message].arrived, {}, bytes);
    }
  }

  [[nodiscard]] bool is_on_edge(int message) const {
    return program_.channel_of(message).edge >= 0;
  }

  /// Bytes on a rank of this lane. Messages are counted for a rank that gives features, also those
  /// with gradients.
  [[nodiscard]] Bytes bytes_here(int message) const {
    const schedule::PipelineEdge& edge =
        program_.pipeline().edges[program_.channel_of(message).edge];
    const Bytes bytes = load_.bytes_of(program_, message);
    if (of_.module == edge.from) return bytes;
    const double share = ranks_for_each_simulated(edge.from) / ranks_for_each_simulated(edge.to);
    return {std::llround(static_cast<double>(bytes.count) * share)};
  }
  [[nodiscard]] double ranks_for_each_simulated(int module) const {
    const cost::ModuleRanks ranks = stages_.ranks(module);
    const int simulated = program_.pipeline().modules[module].replicas;
    const std::int64_t replicas = ranks.replicas > 0 ? ranks.replicas : simulated;
    return static_cast<double>(replicas * ranks.of_lane) / simulated;
  }

  const StepProgram& program_;
  const StepLoad& load_;
  const StepTimes& times_;
  const cost::StageCosts& stages_;
  std::span<const cost::StageCost> costs_;
  schedule::Lane of_;
  std::vector<Change> changes_;
  std::map<int, Bytes> batch_;  // by channel
};

LaneMemory fixed_memory(const StepProgram& program, const cost::StageCosts& costs, int lane) {
  LaneMemory memory;
  const schedule::Lane of = program.map().at(lane);
  for (int chunk = 0; chunk < program.pipeline().modules[of.module].chunks; ++chunk) {
    const cost::StageState state =
        costs.state(of.module, program.map().virtual_stage(of.module, of.stage, chunk));
    memory.parameters += state.parameters;
    memory.gradients += state.gradients;
    memory.optimizer += state.optimizer;
    memory.gathered = std::max(memory.gathered, state.gathered);
    memory.process = std::max(memory.process, state.process);
  }
  return memory;
}

/// Adds buffers: posted receives, and sends that have not arrived, hold one each. A channel counts
/// its largest message times its max number in flight.
void add_buffers(const StepProgram& program, const StepLoad& load,
                 std::vector<LaneMemory>& memory) {
  for (const Channel& channel : program.channels()) {
    if (channel.messages == 0 || channel.edge >= 0) continue;
    const std::int64_t held = std::min(channel.messages, channel.send_buffers);
    Bytes largest;
    for (int i = 0; i < channel.messages; ++i)
      largest = std::max(largest, load.bytes_of(program, channel.first_message + i));
    const Bytes bytes = largest * held;
    memory[channel.from].buffers += bytes;
    memory[channel.to].buffers += bytes;
  }
}

/// Combines the lanes on the same ranks, in the order of time: what they hold at a moment, and the
/// state of the other lanes.
class RankMemory {
 public:
  /// Gathered values and the process exist once on a rank, so only their excess is added.
  RankMemory(const LaneMemory& own, std::span<const LaneMemory* const> others) : memory_(own) {
    Bytes gathered = own.gathered;
    Bytes process = own.process;
    for (const LaneMemory* each : others) {
      state_ += each->parameters + each->gradients + each->optimizer + each->buffers;
      gathered = std::max(gathered, each->gathered);
      process = std::max(process, each->process);
    }
    state_ += gathered - own.gathered + (process - own.process);
    memory_.other = state_;
    fixed_ = memory_.total();
    points_.push_back({.time = {}, .bytes = fixed_});
  }

  /// Merges the changes of this lane and those of the others, each in ascending order.
  void follow(std::span<const Change> own, std::span<const Change> other) {
    while (!own.empty() || !other.empty()) {
      const bool is_own = other.empty() || (!own.empty() && !(is_before(other[0], own[0])));
      std::span<const Change>& next = is_own ? own : other;
      add(next[0], is_own);
      next = next.subspan(1);
    }
  }
  [[nodiscard]] const LaneMemory& memory() const { return memory_; }
  [[nodiscard]] std::vector<MemoryPoint>& points() { return points_; }

 private:
  void add(const Change& change, bool is_own) {
    if (is_own) {
      activations_ += change.activations;
      features_ += change.features;
    } else {
      other_ += change.activations + change.features;
    }
    const Bytes held = activations_ + features_ + other_;
    if (held > max_) {
      max_ = held;
      memory_.activations = activations_;
      memory_.features = features_;
      memory_.other = state_ + other_;
      memory_.peak_at = change.time;
    }
    if (points_.back().time == change.time) points_.pop_back();
    points_.push_back({.time = change.time, .bytes = fixed_ + held});
  }

  LaneMemory memory_;
  Bytes state_;
  Bytes fixed_;
  Bytes activations_;
  Bytes features_;
  Bytes other_;
  Bytes max_;
  std::vector<MemoryPoint> points_;
};

}  // namespace

std::vector<LaneMemory> follow_memory(const StepProgram& program, const StepLoad& load,
                                      const StepTimes& times, const cost::StageCosts& costs,
                                      std::span<const cost::StageCost> pass_costs,
                                      std::vector<std::vector<MemoryPoint>>* points) {
  TRIB_CHECK(times.blocked.empty() && std::ssize(pass_costs) == program.actions(),
             .what = "simulate: memory of a step that cannot be followed",
             .found = str(times.blocked.size(), " blocked lanes, ", pass_costs.size(), " costs"));
  std::vector<LaneMemory> state;
  for (int lane = 0; lane < program.lanes(); ++lane)
    state.push_back(fixed_memory(program, costs, lane));
  add_buffers(program, load, state);
  const bool has_beside = !program.map().sharers().empty();
  std::vector<std::vector<Change>> changes(static_cast<std::size_t>(program.lanes()));
  const auto find = [&](int lane) {
    changes[lane] = LaneChanges(program, load, times, costs, pass_costs, lane).list();
  };
  for (int lane = 0; has_beside && lane < program.lanes(); ++lane) find(lane);
  std::vector<LaneMemory> memory;
  for (int lane = 0; lane < program.lanes(); ++lane) {
    if (!has_beside) find(lane);
    std::optional<RankMemory> fullest;
    for (const std::vector<int>& beside : program.map().lanes_on_ranks(lane)) {
      std::vector<const LaneMemory*> others;
      std::vector<Change> of_others;
      for (const int other : beside) {
        others.push_back(&state[other]);
        of_others.insert(of_others.end(), changes[other].begin(), changes[other].end());
      }
      if (beside.size() > 1) std::ranges::stable_sort(of_others, is_before);
      RankMemory rank(state[lane], others);
      rank.follow(changes[lane], of_others);
      if (!fullest || rank.memory().total() > fullest->memory().total()) fullest = std::move(rank);
    }
    memory.push_back(fullest->memory());
    if (points != nullptr) points->push_back(std::move(fullest->points()));
    if (!has_beside) changes[lane] = {};
  }
  return memory;
}

}  // namespace tributary::simulate
