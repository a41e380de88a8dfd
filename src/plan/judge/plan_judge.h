#pragma once

#include <array>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plan/chains/chain_costs.h"
#include "plan/judge/batch_deals.h"
#include "plan/judge/judged_plan.h"

namespace tributary::plan {

/// The result of a plan on some batches.
struct PlanVerdict {
  std::vector<Nanoseconds> steps = {};  // [batches judged]
  Bytes peak = {};                      // of the fullest device
  std::string fullest = {};             // the module on that device

  [[nodiscard]] Nanoseconds mean() const;
};

/// Runs plans on the batches of a problem, replica by replica, without sharing links; but no step
/// is shorter than its busiest port is taken.
///
/// Microbatches are priced at rounded sizes, tokens to 1/512 and squared tokens to 1/64, so that
/// most are priced only once. Sizes::kAsTheyAre is for values that are compared with a bound. Plans
/// whose ranks share cores are simulated in full, because they slow each other down.
///
/// owns:   what it has priced, for later plans; not for two threads at once
class PlanJudge {
 public:
  PlanJudge(const PlanningProblem& problem, BatchDeals& deals);
  ~PlanJudge();

  enum class Sizes { kRounded, kAsTheyAre };
  /// Judges on batches [first, end).
  [[nodiscard]] PlanVerdict judge(const PlanChoice& choice, const std::vector<ChainCut>& cuts,
                                  std::size_t first_batch, std::size_t end_batch,
                                  Sizes sizes = Sizes::kRounded);

  /// The costs of a chain of the choice, whatever its pp.
  [[nodiscard]] const ChainCosts& costs_of(const PlanChoice& choice, std::size_t chain);

  [[nodiscard]] std::int64_t evaluations() const { return evaluations_; }

 private:
  /// Tokens and squared tokens of the backbone and of each medium; 0 where they do not matter.
  using SizeKey = std::array<std::int64_t, 2 + 2 * cost::kAllMedia.size()>;
  struct SizeHash {
    std::size_t operator()(const SizeKey& key) const {
      std::uint64_t hash = 0;
      for (const std::int64_t each : key)
        hash = (hash ^ static_cast<std::uint64_t>(each)) * 0x9E3779B97F4A7C15U;
      return hash ^ hash >> 32;
    }
  };
  struct Price {
    std::size_t number = 0;                   // in the order of pricing
    std::vector<cost::StageCost> units = {};  // [classes]
  };
  using Prices = std::unordered_map<SizeKey, Price, SizeHash>;
  struct PricedChain {
    ChainCosts costs;
    std::vector<cost::Media> media;  // that the chain works on
    std::shared_ptr<Prices> priced;  // shared by chains that differ only in where their state is
  };
  using ChainKey = std::tuple<std::size_t, std::uint64_t, bool, std::vector<std::int64_t>>;

  [[nodiscard]] PricedChain& chain_of(const PlanChoice& choice, std::size_t chain);
  [[nodiscard]] const Price& price(PricedChain& chain, bool is_backbone,
                                   const cost::MicrobatchShape& shape);
  [[nodiscard]] PlanVerdict judge_by_events(config::Plan plan, std::size_t first_batch,
                                            std::size_t end_batch);
  /// The program of this choice; the last one again where only the cuts have changed.
  [[nodiscard]] const ReplicaProgram& program_of(const PlanChoice& choice,
                                                 const config::Plan& plan);
  /// The shapes of this plan; the last ones again where only the cuts have changed.
  [[nodiscard]] const simulate::StepShapes& shapes_of(const JudgedPlan& plan, std::size_t batch);
  void load_module(JudgedPlan& plan, const simulate::StepShapes& shapes, std::size_t index);
  void run_batch(JudgedPlan& plan, std::size_t batch, PlanVerdict& verdict);

  const PlanningProblem& problem_;
  BatchDeals& deals_;
  bool equal_samples_;
  Sizes sizes_ = Sizes::kRounded;  // of the plan being judged
  std::map<ChainKey, std::unique_ptr<PricedChain>> chains_;
  std::map<ChainKey, std::shared_ptr<Prices>> prices_;
  std::map<std::string, std::shared_ptr<const simulate::StepProgram>> lists_;  // by name_lists
  std::unique_ptr<const ReplicaProgram> program_;
  struct DealtShapes {
    PlanChoice choice;
    std::size_t batch = 0;
    simulate::StepShapes shapes;
  };
  DealtShapes dealt_;
  ReplicaLoad load_;                 // of the last plan; its buffers are reused
  std::vector<std::int64_t> times_;  // of its replicas; reused likewise
  std::int64_t evaluations_ = 0;
};

}  // namespace tributary::plan
