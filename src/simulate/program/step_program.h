#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "schedule/pipeline/lower_schedule.h"

namespace tributary::simulate {

/// What an engine does with an action.
enum class StepKind : std::uint8_t {
  kPass,      // occupies the lane until it ends; waits for its messages
  kSend,      // hands messages to their channels; waits for a free send buffer
  kReceive,   // posts buffers
  kHand,      // nothing: the next pass is also on this lane
  kReduce,    // joins a meeting of replicas; the lane goes on meanwhile
  kOptimize,  // joins the meeting of all lanes
};

/// Messages of one kind from one lane to another, received in the order in which they are sent.
struct Channel {
  schedule::Op op = schedule::Op::kSendActivation;  // of the send
  int from = 0;
  int to = 0;
  int edge = -1;  // of the pipeline, for features and their gradients
  int first_message = 0;
  int messages = 0;
  int send_buffers = 1;  // max messages sent and not yet received
};

/// One message; an end that is in no list is -1, and then the message never arrives.
struct Message {
  int channel = 0;
  int send = -1;     // action
  int receive = -1;  // action that posts the buffer
};

/// Actions that begin together.
struct StepMeeting {
  std::vector<int> members;  // actions
  std::vector<int> before;   // earlier meetings on the same collective streams; lower numbers
};

/// A lowered schedule laid out for engines: actions lane by lane, with their messages and meetings.
///
/// owns: a copy of the schedule
/// cost: O(actions + messages) time and memory; made once, run with many loads
///
/// Lanes on the same ranks (PipelineMap::lanes_beside) share a collective stream, on which the
/// backbone's reductions go first, then those of one colocated module after the other. Their
/// optimizer steps run one after the other, the backbone's last. Lanes ahead have nothing to
/// update: they meet for the step when they are done.
class StepProgram {
 public:
  /// shape:  whole_batches [edges] where the first pass that reads features waits for those of all
  ///         microbatches; empty: none
  /// errors: Fault::kBug when the lists are not those of the pipeline's lanes, or not lowered
  StepProgram(schedule::Schedule lowered, const schedule::Buffers& buffers,
              std::vector<bool> whole_batches = {});

  [[nodiscard]] int lanes() const { return static_cast<int>(std::ssize(first_action_)) - 1; }
  [[nodiscard]] int actions() const { return first_action_.back(); }
  [[nodiscard]] int first_action(int lane) const { return first_action_[lane]; }
  [[nodiscard]] int lane_of(int action) const { return lane_of_[action]; }
  [[nodiscard]] StepKind kind(int action) const { return kind_[action]; }
  [[nodiscard]] const schedule::Action& action(int index) const { return actions_[index]; }
  /// The messages that a pass needs, a send sends, or a receive posts.
  [[nodiscard]] std::span<const int> messages_of(int action) const {
    return std::span(message_list_)
        .subspan(first_message_[action], first_message_[action + 1] - first_message_[action]);
  }
  [[nodiscard]] std::span<const Message> messages() const { return messages_; }
  [[nodiscard]] std::span<const Channel> channels() const { return channels_; }
  [[nodiscard]] const Channel& channel_of(int message) const {
    return channels_[messages_[message].channel];
  }
  /// The pass that uses a received message; -1: one of the step after. In a whole batch the first
  /// one needs all of them, and uses its own.
  [[nodiscard]] int user_of(int message) const;
  /// Whether the first pass that reads this channel waits for the messages of all microbatches:
  /// features of a whole batch, and gradients of a colocated module.
  [[nodiscard]] bool comes_in_whole_batches(const Channel& channel) const;
  [[nodiscard]] std::span<const StepMeeting> reductions() const { return reductions_; }
  /// The reduction that a kReduce action joins.
  [[nodiscard]] int reduction_of(int action) const { return reduction_of_[action]; }
  /// The optimizer steps of all lanes that have one.
  [[nodiscard]] const StepMeeting& step() const { return step_; }
  /// The optimizer steps of modules that share ranks: those of one module end before those of the
  /// next begin. Empty: at most one module has any. All others begin at once.
  [[nodiscard]] std::span<const std::vector<int>> shared_steps() const { return shared_steps_; }
  /// The place of a step's module in `shared_steps`; -1: it begins at once.
  [[nodiscard]] int place_of_step(int action) const;
  /// Whether a step has the part of the host, which comes once for a rank.
  [[nodiscard]] bool takes_host_step(int action) const {
    const int place = place_of_step(action);
    return place < 0 || place + 1 == std::ssize(shared_steps_);
  }
  /// The action of a pass; -1 when the list has none. BW counts as the input gradient.
  enum class Pass { kForward, kInputGradient, kWeightGradient };
  [[nodiscard]] int pass_at(int lane, Pass pass, int chunk, int microbatch) const;
  [[nodiscard]] Bytes bytes_of(int message) const;
  /// The message `by` places before another on its channel; -1: there is none.
  [[nodiscard]] int earlier(int message, int by) const {
    return message - by < channel_of(message).first_message ? -1 : message - by;
  }
  [[nodiscard]] const schedule::Pipeline& pipeline() const { return schedule_->pipeline; }
  [[nodiscard]] const schedule::PipelineMap& map() const { return *map_; }

 private:
  void flatten();
  void index_passes();
  /// An end of a message: the send or the receive.
  struct MessageEnd {
    int action, channel, number;
  };
  std::vector<MessageEnd> number_ends();
  [[nodiscard]] int first_user_of(int receive) const;
  [[nodiscard]] int next_pass(int action) const;  // of its lane
  void find_messages();
  void find_meetings();
  void order_meetings();

  std::unique_ptr<schedule::Schedule> schedule_;  // the map points into it
  std::unique_ptr<schedule::PipelineMap> map_;
  schedule::Buffers buffers_;
  std::vector<bool> whole_batches_;
  std::vector<int> first_action_;  // [lanes + 1]
  std::vector<int> lane_of_;       // [actions]
  std::vector<StepKind> kind_;     // [actions]
  std::vector<schedule::Action> actions_;
  std::vector<int> first_message_;  // [actions + 1]
  std::vector<int> message_list_;
  std::vector<Message> messages_;
  std::vector<Channel> channels_;
  std::vector<int> first_pass_;  // [lanes] into passes_
  std::vector<int> passes_;
  std::vector<int> reduction_of_;  // [actions]
  std::vector<StepMeeting> reductions_;
  StepMeeting step_;
  std::vector<std::vector<int>> shared_steps_;
};

/// `F0.3 of backbone replica 0 stage 1`
[[nodiscard]] std::string describe(const StepProgram& program, int action);

}  // namespace tributary::simulate
