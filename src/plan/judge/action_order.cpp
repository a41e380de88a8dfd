#include "plan/judge/action_order.h"

#include "core/error.h"

namespace tributary::plan {
namespace {

class Walk {
 public:
  explicit Walk(const simulate::StepProgram& program)
      : program_(program),
        next_(static_cast<std::size_t>(program.lanes())),
        waits_for_(next_.size(), -1),
        ends_(program.messages().size()) {
    order_.reserve(static_cast<std::size_t>(program.actions()));
  }

  std::vector<int> run() {
    for (int lane = program_.lanes() - 1; lane >= 0; --lane) {
      next_[lane] = program_.first_action(lane);
      ready_.push_back(lane);
    }
    while (!ready_.empty()) {
      const int lane = ready_.back();
      ready_.pop_back();
      advance(lane);
    }
    for (int lane = 0; lane < program_.lanes(); ++lane)
      TRIB_CHECK(next_[lane] == program_.first_action(lane + 1),
                 .what = "plan: step of a candidate never ends",
                 .found = describe(program_, next_[lane]));
    return std::move(order_);
  }

 private:
  void advance(int lane) {
    for (int& next = next_[lane]; next < program_.first_action(lane + 1); ++next) {
      waits_for_[lane] = missing(next);
      if (waits_for_[lane] >= 0) return;
      order_.push_back(next);
      const simulate::StepKind kind = program_.kind(next);
      if (kind != simulate::StepKind::kSend && kind != simulate::StepKind::kReceive) continue;
      for (const int message : program_.messages_of(next)) end(message);
    }
  }

  /// The first message that the action still waits for, or whose buffer it needs; -1: none.
  [[nodiscard]] int missing(int action) const {
    const simulate::StepKind kind = program_.kind(action);
    if (kind != simulate::StepKind::kPass && kind != simulate::StepKind::kSend) return -1;
    for (const int message : program_.messages_of(action)) {
      const int needed = kind == simulate::StepKind::kPass ? message : buffer_before(message);
      if (needed >= 0 && ends_[needed] < 2) return needed;
    }
    return -1;
  }

  [[nodiscard]] int buffer_before(int message) const {
    return program_.earlier(message, program_.channel_of(message).send_buffers);
  }

  /// Notes that one of the two ends of a message is ready.
  void end(int message) {
    if (++ends_[message] < 2) return;
    const simulate::Channel& channel = program_.channel_of(message);
    for (const int lane : {channel.from, channel.to})
      if (waits_for_[lane] == message) ready_.push_back(lane);
  }

  const simulate::StepProgram& program_;
  std::vector<int> next_;       // [lanes] action
  std::vector<int> waits_for_;  // [lanes] message
  std::vector<int> ends_;       // [messages] number of ends that are ready
  std::vector<int> ready_;
  std::vector<int> order_;
};

}  // namespace

std::vector<int> order_actions(const simulate::StepProgram& program) { return Walk(program).run(); }

}  // namespace tributary::plan
