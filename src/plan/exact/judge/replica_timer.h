#pragma once

#include <cstdint>
#include <vector>

#include "plan/simulate/step_load.h"

namespace tributary::plan {

/// What the passes of one microbatch on one virtual stage take, communication in line included.
struct PassCosts {
  std::int64_t forward = 0;          // [ns]
  std::int64_t input_gradient = 0;   // [ns]
  std::int64_t weight_gradient = 0;  // [ns]
  std::int64_t boundary = 0;         // [bytes] sent on
};

/// One step of the replicas that differ.
struct ReplicaLoad {
  std::vector<int> replicas = {};  // [modules of the pipeline] that are run; the program has one
  // [modules][replica, virtual stage, microbatch]
  std::vector<std::vector<PassCosts>> passes = {};
  // [actions of the program] of reductions and optimizer steps
  std::vector<Nanoseconds> fixed = {};
};

/// Times steps of a plan whose replicas differ in what they work on and in nothing else, by the
/// lists of one replica of each module.
///
/// Equal to time_step over all replicas where the network is not shared, but for features: those of
/// a round travel as one message from all replicas of the giver to all of the taker, by the route
/// of the folded program.
///
/// owns:  nothing; program and network must outlive it
/// shape: the program has one replica of each module
/// cost:  some 5 ns for each action of each replica
class ReplicaTimer {
 public:
  ReplicaTimer(const StepProgram& program, const Network& network);

  /// The makespan.
  ///
  /// errors: Fault::kBug when the step never ends
  [[nodiscard]] Nanoseconds run(const ReplicaLoad& load) const;

  /// Where passes[module] holds a replica's microbatch.
  [[nodiscard]] std::size_t place(int module, int replica, int virtual_stage,
                                  int microbatch) const {
    return (static_cast<std::size_t>(replica) * virtual_stages_[module] + virtual_stage) *
               microbatches_ +
           microbatch;
  }

  /// What a pass is, for engines.
  enum class Duration : std::uint8_t { kForward, kInput, kWeight, kWhole, kFixed };
  struct ActionPlace {
    Duration duration = Duration::kFixed;
    int place = 0;  // within a replica
  };
  struct MessagePlace {
    int module = 0;  // whose boundary it is
    int place = 0;
    bool is_edge = false;
    bool is_mean = false;  // of all microbatches: gradients that come back to a colocated module
    int number = 0;        // among those of the module that go from stage to stage
    int from = 0;          // lanes
    int to = 0;
    int first = 0;  // message of the channel
    Nanoseconds latency = {};
    double bytes_per_ns = 0;
  };
  [[nodiscard]] const ActionPlace& of_action(int action) const { return actions_[action]; }
  [[nodiscard]] const MessagePlace& of_message(int message) const { return messages_[message]; }
  /// Bytes of a message, by the passes of a replica.
  [[nodiscard]] std::int64_t boundary(const MessagePlace& of, const PassCosts* replica) const;
  [[nodiscard]] int module_of(int lane) const { return module_of_[lane]; }
  [[nodiscard]] int replica_size(int module) const {
    return virtual_stages_[module] * microbatches_;
  }
  /// Messages from stage to stage in one replica.
  [[nodiscard]] int messages_inside(int module) const { return messages_inside_[module]; }

 private:
  void place_messages();

  const StepProgram& program_;
  const Network& network_;
  std::vector<int> virtual_stages_;
  int microbatches_ = 1;
  std::vector<int> module_of_;        // [lanes]
  std::vector<int> messages_inside_;  // [modules]
  std::vector<ActionPlace> actions_;
  std::vector<MessagePlace> messages_;
};

}  // namespace tributary::plan
