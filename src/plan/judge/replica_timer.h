#pragma once

#include <cstdint>
#include <vector>

#include "plan/judge/module_passes.h"
#include "simulate/program/step_load.h"

namespace tributary::plan {

/// One step of replicas that differ in their inputs.
struct ReplicaLoad {
  std::vector<ModulePasses> modules = {};  // of the pipeline; the program has one replica of each
  // [actions of the program] of reductions and optimizer steps
  std::vector<Nanoseconds> fixed = {};
};

/// Times steps of a plan whose replicas differ only in their inputs, by the lists of one replica of
/// each module. Dependencies are found once; then each action is timed for all replicas.
///
/// Equals time_step over all replicas where the network is not shared, except between modules.
/// Features of a microbatch travel as one message from all replicas of the sender to all of the
/// receiver, by the route of the folded program. Turns of colocated modules, whose replicas may lie
/// on several ranks, are given by all replicas to all likewise, without bytes.
///
/// owns:  nothing; program and network must outlive it
/// shape: the program has one replica of each module
/// errors: Fault::kBug when the step never ends
/// cost:  construction about 20 ns an action; a run a few ns for each action of each replica
class ReplicaTimer {
 public:
  ReplicaTimer(const simulate::StepProgram& program, const simulate::Network& network);

  /// The makespan; `times` is a buffer that the next run may reuse.
  [[nodiscard]] Nanoseconds run(const ReplicaLoad& load, std::vector<std::int64_t>& times) const;

  /// Which duration a pass takes, for engines.
  enum class Duration : std::uint8_t { kForward, kInput, kWeight, kWhole };
  struct PassPlace {
    Duration duration = Duration::kForward;
    int virtual_stage = 0;
    int microbatch = 0;
  };
  struct MessagePlace {
    int module = 0;  // the module whose boundary it is
    int virtual_stage = 0;
    int microbatch = 0;
    int channel = 0;
    int before = -1;       // the message whose send buffer it reuses
    int edge = -1;         // index among messages between modules; -1: inside a module
    int slot = -1;         // of its times; messages take turns
    bool is_mean = false;  // mean of all microbatches: gradients back to a colocated module
    bool is_turn = false;  // of two modules on the same ranks: it has no bytes
  };
  [[nodiscard]] const PassPlace& of_pass(int action) const { return passes_[action]; }
  [[nodiscard]] const MessagePlace& of_message(int message) const { return messages_[message]; }
  /// Bytes of a message of one replica.
  [[nodiscard]] static std::int64_t boundary(const MessagePlace& of, const ModulePasses& module,
                                             std::size_t replica) {
    if (of.is_turn) return 0;
    return of.is_mean ? module.mean_boundary
                      : module.at(of.virtual_stage, of.microbatch)[replica].costs.boundary;
  }
  [[nodiscard]] int module_of(int lane) const { return module_of_[lane]; }
  /// All actions, each after those that it waits for.
  [[nodiscard]] const std::vector<int>& order() const { return order_; }
  [[nodiscard]] int slots() const { return slots_; }
  [[nodiscard]] int edges() const { return edges_; }
  [[nodiscard]] const simulate::Route& route_of(const MessagePlace& message) const {
    return network_.routes[message.channel];
  }

 private:
  void place_passes();
  void place_messages();
  void assign_slots();

  const simulate::StepProgram& program_;
  const simulate::Network& network_;
  std::vector<int> order_;
  std::vector<int> module_of_;     // [lanes]
  std::vector<PassPlace> passes_;  // [actions]
  std::vector<MessagePlace> messages_;
  int slots_ = 0;
  int edges_ = 0;
};

}  // namespace tributary::plan
