#include <numeric>

#include "simulate/engine/lane_walk.h"
#include "simulate/engine/meetings.h"

namespace tributary::simulate {
namespace {

/// Every message has its way to itself.
class WaysAlone {
 public:
  WaysAlone(const StepProgram& program, const StepLoad& load, const Network& network)
      : program_(program), load_(load), network_(network), rate_(rates_alone(network)) {
    if (load.bytes.empty()) find_usual_travel();
  }

  [[nodiscard]] Nanoseconds begin(int message, int channel, Nanoseconds now) const {
    return now + (load_.bytes.empty() ? usual_travel_[channel]
                                      : travel_time(network_.routes[channel].latency,
                                                    rate_[channel], load_.bytes[message]));
  }

 private:
  void find_usual_travel() {
    usual_travel_.reserve(network_.routes.size());
    for (std::size_t i = 0; i < network_.routes.size(); ++i) {
      const Channel& channel = program_.channels()[i];
      usual_travel_.push_back(channel.messages == 0
                                  ? Nanoseconds{}
                                  : travel_time(network_.routes[i].latency, rate_[i],
                                                program_.bytes_of(channel.first_message)));
    }
  }

  const StepProgram& program_;
  const StepLoad& load_;
  const Network& network_;
  std::vector<double> rate_;               // [channels]
  std::vector<Nanoseconds> usual_travel_;  // [channels]; empty: messages have sizes of their own
};

}  // namespace

StepTimes run_longest_path(const StepProgram& program, const StepLoad& load,
                           const Network& network) {
  StepTimes times;
  times.actions.resize(static_cast<std::size_t>(program.actions()));
  times.messages.resize(program.messages().size());
  WaysAlone ways(program, load, network);
  LaneWalk walk(program, load, network, ways, times);
  std::vector<int> all(static_cast<std::size_t>(program.lanes()));
  std::iota(all.begin(), all.end(), 0);
  walk.start(all);
  times.blocked = walk.find_blocked();
  hold_meetings(program, load, times);
  return times;
}

}  // namespace tributary::simulate
