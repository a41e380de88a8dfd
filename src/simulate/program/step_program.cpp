#include "simulate/program/step_program.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/error.h"

namespace tributary::simulate {
namespace {

using schedule::Action;
using schedule::Op;

StepKind kind_of(Op op) {
  if (schedule::is_pass(op)) return StepKind::kPass;
  if (schedule::is_send(op)) return StepKind::kSend;
  if (schedule::is_receive(op)) return StepKind::kReceive;
  if (op == Op::kReduceGradients) return StepKind::kReduce;
  return op == Op::kOptimizerStep ? StepKind::kOptimize : StepKind::kHand;
}

bool is_of_edge(Op op) { return schedule::stream_of(op) == schedule::Stream::kFeatures; }

/// The op of the send that belongs to a receive.
Op send_of(Op receive) { return static_cast<Op>(static_cast<int>(receive) - 1); }

int place_of(StepProgram::Pass pass, int chunk, int microbatch, int microbatches) {
  return (3 * chunk + static_cast<int>(pass)) * microbatches + microbatch;
}

StepProgram::Pass pass_of(Op op) {
  if (op == Op::kForward) return StepProgram::Pass::kForward;
  return op == Op::kBackwardWeight ? StepProgram::Pass::kWeightGradient
                                   : StepProgram::Pass::kInputGradient;
}

/// Assigns channels and message numbers to all transfers.
class ChannelTable {
 public:
  explicit ChannelTable(const schedule::PipelineMap& map) : map_(map) {}

  /// The channels that an action writes or reads, ordered by their far ends.
  const std::vector<int>& channels_of(int lane, const Action& transfer) {
    auto [found, is_new] = of_lane_[lane].try_emplace({transfer.op, transfer.peer});
    if (!is_new) return found->second;
    if (!is_of_edge(transfer.op)) {
      found->second.push_back(channel(lane, transfer, transfer.peer));
    } else {
      for (const schedule::FarEnd& far : far_ends_of(map_, lane, transfer))
        found->second.push_back(channel(lane, transfer, far.lane));
    }
    return found->second;
  }
  std::vector<Channel>& channels() { return channels_; }
  void begin(int lane) { of_lane_.try_emplace(lane); }
  void end(int lane) { of_lane_.erase(lane); }

 private:
  int channel(int lane, const Action& transfer, int far_lane) {
    const bool sends = schedule::is_send(transfer.op);
    const Op op = sends ? transfer.op : send_of(transfer.op);
    const int from = sends ? lane : far_lane;
    const int to = sends ? far_lane : lane;
    const int edge = is_of_edge(op) ? transfer.peer : -1;
    // There are fewer than 2^26 lanes and 2^8 edges; ops take four bits.
    const std::uint64_t key =
        (static_cast<std::uint64_t>(from) << 38) | (static_cast<std::uint64_t>(to) << 12) |
        (static_cast<std::uint64_t>(edge + 1) << 4) | static_cast<std::uint64_t>(op);
    const auto [found, is_new] = index_.try_emplace(key, static_cast<int>(channels_.size()));
    if (is_new) channels_.push_back({.op = op, .from = from, .to = to, .edge = edge});
    return found->second;
  }

  const schedule::PipelineMap& map_;
  std::unordered_map<std::uint64_t, int> index_;
  std::vector<Channel> channels_;
  std::unordered_map<int, std::map<std::pair<Op, int>, std::vector<int>>> of_lane_;
};

}  // namespace

StepProgram::StepProgram(schedule::Schedule lowered, const schedule::Buffers& buffers,
                         std::vector<bool> whole_batches)
    : schedule_(std::make_unique<schedule::Schedule>(std::move(lowered))),
      map_(std::make_unique<schedule::PipelineMap>(schedule_->pipeline)),
      buffers_(buffers),
      whole_batches_(std::move(whole_batches)) {
  TRIB_CHECK(std::ssize(schedule_->lists) == map_->lanes(),
             .what = "simulate: not one list for each lane", .found = str(schedule_->lists.size()),
             .expected = str(map_->lanes()));
  TRIB_CHECK(map_->lanes() < (1 << 26) && pipeline().edges.size() < 255,
             .what = "simulate: pipeline is too large to simulate",
             .found = str(map_->lanes(), " lanes, ", pipeline().edges.size(), " edges"),
             .expected = "fewer than 2^26 lanes and 255 edges");
  flatten();
  index_passes();
  find_messages();
  find_meetings();
  order_meetings();
}

void StepProgram::flatten() {
  std::size_t total = 0;
  for (const schedule::ActionList& list : schedule_->lists) total += list.size();
  actions_.reserve(total);
  lane_of_.reserve(total);
  kind_.reserve(total);
  for (int lane = 0; lane < map_->lanes(); ++lane) {
    first_action_.push_back(static_cast<int>(actions_.size()));
    for (const Action& action : schedule_->lists[lane]) {
      actions_.push_back(action);
      lane_of_.push_back(lane);
      kind_.push_back(kind_of(action.op));
    }
    schedule_->lists[lane] = {};
  }
  first_action_.push_back(static_cast<int>(actions_.size()));
}

void StepProgram::index_passes() {
  for (int lane = 0; lane < lanes(); ++lane) {
    first_pass_.push_back(static_cast<int>(passes_.size()));
    const int chunks = pipeline().modules[map_->at(lane).module].chunks;
    passes_.resize(passes_.size() + std::size_t{3} * chunks * pipeline().microbatches, -1);
  }
  for (int action = 0; action < actions(); ++action) {
    if (kind_[action] != StepKind::kPass) continue;
    const Action& pass = actions_[action];
    passes_[first_pass_[lane_of_[action]] + place_of(pass_of(pass.op), pass.chunk, pass.microbatch,
                                                     pipeline().microbatches)] = action;
  }
}

int StepProgram::pass_at(int lane, Pass pass, int chunk, int microbatch) const {
  return passes_[first_pass_[lane] + place_of(pass, chunk, microbatch, pipeline().microbatches)];
}

/// Gives every end of a message its channel and its number there, and counts the messages.
std::vector<StepProgram::MessageEnd> StepProgram::number_ends() {
  ChannelTable table(*map_);
  std::vector<int> sent;    // [channels] so far
  std::vector<int> posted;  // [channels]
  const auto count = [](std::vector<int>& counts, int channel) {
    if (channel >= std::ssize(counts)) counts.resize(static_cast<std::size_t>(channel) + 1, 0);
    return counts[channel]++;
  };
  std::vector<MessageEnd> ends;
  for (int lane = 0; lane < lanes(); ++lane) {
    table.begin(lane);
    for (int action = first_action_[lane]; action < first_action_[lane + 1]; ++action) {
      const bool sends = kind_[action] == StepKind::kSend;
      if (!sends && kind_[action] != StepKind::kReceive) continue;
      for (const int channel : table.channels_of(lane, actions_[action]))
        ends.push_back({action, channel, count(sends ? sent : posted, channel)});
    }
    table.end(lane);
  }
  channels_ = std::move(table.channels());
  sent.resize(channels_.size(), 0);
  posted.resize(channels_.size(), 0);
  int messages = 0;
  for (std::size_t channel = 0; channel < channels_.size(); ++channel) {
    channels_[channel].first_message = messages;
    channels_[channel].messages = std::max(sent[channel], posted[channel]);
    messages += channels_[channel].messages;
  }
  messages_.resize(static_cast<std::size_t>(messages));
  return ends;
}

/// The pass of the same chunk and microbatch: F for activations and features, the input gradient
/// for gradients.
int StepProgram::user_of(int message) const {
  const int receive = messages_[message].receive;
  const Action& action = actions_[receive];
  if (action.op == Op::kReceiveTurn) return next_pass(receive);
  if (map_->carries_ahead(channel_of(message).edge)) return -1;
  const bool forward = action.op == Op::kReceiveActivation || action.op == Op::kReceiveFeatures;
  const int pass = pass_at(lane_of_[receive], forward ? Pass::kForward : Pass::kInputGradient,
                           action.chunk, action.microbatch);
  TRIB_CHECK(pass >= 0, .what = "simulate: receive that no pass uses",
             .where = map_->describe(lane_of_[receive]), .found = to_text(action));
  return pass;
}

int StepProgram::next_pass(int action) const {
  const int lane = lane_of_[action];
  const int end = first_action_[lane + 1];
  while (action < end && kind_[action] != StepKind::kPass) ++action;
  TRIB_CHECK(action < end, .what = "simulate: turn without a pass", .where = map_->describe(lane));
  return action;
}

/// The first pass of its chunk that reads features, or their gradients.
int StepProgram::first_user_of(int receive) const {
  const bool forward = actions_[receive].op == Op::kReceiveFeatures;
  for (int action = first_action_[lane_of_[receive]];; ++action) {
    const Op op = actions_[action].op;
    const bool takes = forward ? op == Op::kForward : schedule::gives_input_gradient(op);
    if (takes && actions_[action].chunk == actions_[receive].chunk) return action;
  }
}

void StepProgram::find_messages() {
  const std::vector<MessageEnd> ends = number_ends();
  for (Channel& channel : channels_)
    channel.send_buffers = map_->is_of_colocated(channel.edge) || channel.op == Op::kSendTurn
                               ? std::max(1, channel.messages)
                               : buffers_.send;
  for (const auto& [action, channel, number] : ends) {
    Message& message = messages_[channels_[channel].first_message + number];
    message.channel = channel;
    (kind_[action] == StepKind::kSend ? message.send : message.receive) = action;
  }
  const auto for_actions_with_messages = [&](const auto& visit) {
    for (const auto& [action, channel, number] : ends) {
      const int message = channels_[channel].first_message + number;
      visit(action, message);
      if (kind_[action] == StepKind::kSend) continue;
      const int user = user_of(message);
      if (user < 0) continue;
      visit(user, message);
      if (!comes_in_whole_batches(channels_[channel])) continue;
      if (const int first = first_user_of(action); first != user) visit(first, message);
    }
  };
  first_message_.assign(actions_.size() + 1, 0);
  for_actions_with_messages([&](int action, int) { ++first_message_[action + 1]; });
  for (int action = 0; action < actions(); ++action)
    first_message_[action + 1] += first_message_[action];
  message_list_.resize(static_cast<std::size_t>(first_message_.back()));
  std::vector<int> next(first_message_.begin(), first_message_.end() - 1);
  for_actions_with_messages(
      [&](int action, int message) { message_list_[next[action]++] = message; });
}

bool StepProgram::comes_in_whole_batches(const Channel& channel) const {
  if (map_->goes_in_one_batch(channel.edge)) return true;
  return channel.op == Op::kSendFeatures && !whole_batches_.empty() && whole_batches_[channel.edge];
}

void StepProgram::find_meetings() {
  reduction_of_.assign(actions_.size(), -1);
  std::map<std::tuple<int, int, int>, int> index;  // module, stage, number on the lane
  const auto find_on = [&](int lane) {
    const schedule::Lane of = map_->at(lane);
    int number = 0;
    for (int action = first_action_[lane]; action < first_action_[lane + 1]; ++action) {
      if (kind_[action] == StepKind::kOptimize) step_.members.push_back(action);
      if (kind_[action] != StepKind::kReduce) continue;
      const auto [found, is_new] =
          index.try_emplace({of.module, of.stage, number}, static_cast<int>(reductions_.size()));
      if (is_new) reductions_.emplace_back();
      if (is_new && number > 0)
        reductions_.back().before = {index.at({of.module, of.stage, number - 1})};
      reductions_[found->second].members.push_back(action);
      reduction_of_[action] = found->second;
      ++number;
    }
  };
  for (int lane = 0; lane < lanes(); ++lane)
    if (!map_->is_colocated(lane)) find_on(lane);
  for (int lane = 0; lane < lanes(); ++lane)
    if (map_->is_colocated(lane)) find_on(lane);
}

/// At the end of a step, a rank handles its modules one after the other.
void StepProgram::order_meetings() {
  const auto module_of = [this](int action) { return map_->at(lane_of_[action]).module; };
  const std::vector<int>& order = map_->sharers();
  for (const int module : order) {
    std::vector<int>& steps = shared_steps_.emplace_back();
    std::ranges::copy_if(step_.members, std::back_inserter(steps),
                         [&](int member) { return module_of(member) == module; });
  }
  std::erase_if(shared_steps_, [](const std::vector<int>& steps) { return steps.empty(); });
  if (shared_steps_.size() < 2) shared_steps_.clear();
  std::map<std::pair<int, int>, int> last;  // reduction, by module and stage
  for (int i = 0; i < std::ssize(reductions_); ++i) {
    const schedule::Lane of = map_->at(lane_of_[reductions_[i].members.front()]);
    if (std::ranges::find(order, of.module) == order.end()) continue;
    if (of.module != map_->flow().back() && reductions_[i].before.empty())
      for (const auto& [stage, before] : last) reductions_[i].before.push_back(before);
    last[{of.module, of.stage}] = i;
  }
}

int StepProgram::place_of_step(int action) const {
  const int module = map_->at(lane_of_[action]).module;
  const auto found = std::ranges::find_if(shared_steps_, [&](const std::vector<int>& steps) {
    return map_->at(lane_of_[steps.front()]).module == module;
  });
  return found == shared_steps_.end() ? -1 : static_cast<int>(found - shared_steps_.begin());
}

/// Messages along an edge are divided evenly among the replicas at its other end.
Bytes StepProgram::bytes_of(int message) const {
  const Message& of = messages_[message];
  const Action& action = actions_[of.send >= 0 ? of.send : of.receive];
  const Channel& channel = channels_[of.channel];
  if (channel.edge < 0) return action.bytes;
  const std::int64_t replicas = pipeline().modules[map_->at(channel.to).module].replicas;
  return {(action.bytes.count + replicas - 1) / replicas};
}

std::string describe(const StepProgram& program, int action) {
  return str(to_text(program.action(action)), " of ",
             program.map().describe(program.lane_of(action)));
}

}  // namespace tributary::simulate
