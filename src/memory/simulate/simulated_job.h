#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "memory/simulate/invariants.h"
#include "memory/simulate/simulate_pool.h"
#include "memory/simulate/simulated_process.h"
#include "memory/simulate/virtual_network.h"

namespace tributary::memory {

/// All processes of a job, what lies on its disks, and its launcher.
class SimulatedJob {
 public:
  explicit SimulatedJob(const SimulatedWorkload& workload);

  [[nodiscard]] SimulatedRun run();

 private:
  using Process = SimulatedProcess;

  // simulated_job.cpp: life of the job
  void start_job();
  void restart_job();
  void start(Process& process);
  void kill(Process& process);
  void replace(Process& producer);
  void join(Process& producer);
  void schedule_faults();
  void run_fault(int kind);
  /// The member opens its link again after a while, which may be too late.
  void break_link(Process& member, Nanoseconds duration);
  [[nodiscard]] PageTable first_table() const;
  [[nodiscard]] std::vector<SegmentRow> rows_of(const Process& producer, std::uint32_t epoch) const;
  [[nodiscard]] bool is_done() const;
  [[nodiscard]] OwnerConfig owner_config(const Process& process) const;

  // perform_actions.cpp: what the cores ask for
  void give(Process& process, const Event& event);
  void run_on(std::uint16_t process, std::uint64_t life, std::function<void()> run);
  void run_later(Process& process, Nanoseconds delay, std::function<void()> run);
  void tick(Process& process);
  void plan_ahead(Process& controller);
  void perform(Process& process, const Send& action);
  void perform(Process& process, const Encode& action);
  void finish_encoding(Process& process, const Encode& action, bool fails);
  void perform(Process& process, const CancelEncode& action);
  void perform(Process& process, const SendObject& action);
  void perform(Process& process, const StartGet& action);
  void perform(Process& process, const DeliverMicrobatch& action);
  void perform(Process& process, const LogPlan& action);
  void perform(Process& process, const CommitStep& action);
  void perform(Process& process, const ClosePeer& action);
  void perform(Process& process, const StopProcess& action);
  void receive(Process& process, const PeerIdentity& from, std::span<const std::byte> bytes);
  void finish_get(Process& reader, std::uint64_t request, const GetReply& reply,
                  std::span<const std::byte> payload);
  void end_get(Process& reader, std::uint64_t request, Status status);
  void finish_steps();
  /// Consumers that wait too long for a step make what is missing, and finish it.
  void lose_patience();

  SimulatedWorkload workload_;
  VirtualClock clock_;
  VirtualNetwork network_;
  RandomStream draw_;
  Invariants invariants_;
  std::map<std::uint16_t, Process> processes_;  // controller 0, then producers, then consumers
  std::uint32_t incarnation_ = 0;
  bool is_restarting_ = false;

  std::uint64_t checkpoint_ = 0;             // on disk: steps before it are committed for good
  std::vector<std::uint64_t> committed_;     // steps
  std::vector<std::vector<std::byte>> log_;  // on disk: the record of each step

  std::uint64_t barrier_ = 0;   // steps that all consumers have finished
  std::uint64_t given_up_ = 0;  // steps before it are finished, whatever came
  std::map<std::uint16_t, std::set<std::pair<std::uint64_t, std::uint32_t>>> delivered_;
  SimulatedRun run_;
};

}  // namespace tributary::memory
