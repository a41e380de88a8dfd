#include "train/flow/choose_arrivals.h"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include "schedule/pack_online.h"

namespace tributary::train {
namespace {

using Queue = std::deque<const Arrival*>;

/// The samples of each replica, as they are chosen.
class Choice {
 public:
  Choice(std::int64_t count, std::int64_t replicas)
      : left_(count),
        tokens_(static_cast<std::size_t>(replicas)),
        chosen_(static_cast<std::size_t>(replicas)) {}

  /// Takes samples of a kind until there are enough.
  void take(std::span<const Arrival> arrivals, bool is_due, bool is_ready) {
    std::vector<Queue> queues(chosen_.size());
    for (const Arrival& each : arrivals)
      if (each.is_due == is_due && each.is_ready == is_ready)
        queues[static_cast<std::size_t>(each.replica)].push_back(&each);
    std::set<std::pair<Tokens, std::size_t>> by_load;  // replicas with a sample of this kind
    for (std::size_t i = 0; i < queues.size(); ++i)
      if (!queues[i].empty()) by_load.insert({tokens_[i], i});
    for (; left_ > 0 && !by_load.empty(); --left_) {
      const std::size_t replica = by_load.extract(by_load.begin()).value().second;
      const Arrival* first = queues[replica].front();
      queues[replica].pop_front();
      chosen_[replica].push_back(first);
      tokens_[replica] += first->tokens;
      if (!queues[replica].empty()) by_load.insert({tokens_[replica], replica});
    }
  }

  [[nodiscard]] std::vector<Queue>& chosen() { return chosen_; }

 private:
  std::int64_t left_;
  std::vector<Tokens> tokens_;
  std::vector<Queue> chosen_;
};

}  // namespace

std::vector<std::vector<std::int32_t>> pack_arrivals(std::span<const Tokens> lengths,
                                                     Tokens capacity) {
  const schedule::PackedBins packed = schedule::pack_online(lengths, capacity);
  std::vector<std::vector<std::int32_t>> bins;
  for (std::int64_t bin = 0; bin < packed.bins(); ++bin)
    bins.emplace_back(packed.bin(bin).begin(), packed.bin(bin).end());
  std::ranges::sort(bins, {}, [](const auto& bin) { return bin.back(); });
  return bins;
}

std::vector<memory::PlanRecordMicrobatch> choose_arrivals(std::span<const Arrival> arrivals,
                                                          std::int64_t count, std::int64_t replicas,
                                                          Tokens capacity) {
  Choice choice(count, replicas);
  for (const bool is_due : {true, false})
    for (const bool is_ready : {true, false}) choice.take(arrivals, is_due, is_ready);
  std::vector<memory::PlanRecordMicrobatch> microbatches;
  std::uint32_t replica = 0;
  for (Queue& own : choice.chosen()) {
    std::ranges::stable_sort(own, std::ranges::greater(), &Arrival::is_ready);
    std::vector<Tokens> lengths;
    for (const Arrival* each : own) lengths.push_back(each->tokens);
    std::uint32_t order = 0;
    for (const std::vector<std::int32_t>& bin : pack_arrivals(lengths, capacity)) {
      memory::PlanRecordMicrobatch& microbatch = microbatches.emplace_back(
          memory::PlanRecordMicrobatch{.dp_rank = replica, .order = order++, .samples = {}});
      for (const std::int32_t place : bin)
        microbatch.samples.push_back(
            {.id = static_cast<std::uint64_t>(own[static_cast<std::size_t>(place)]->id),
             .tokens =
                 static_cast<std::uint32_t>(own[static_cast<std::size_t>(place)]->tokens.count)});
    }
    ++replica;
  }
  return microbatches;
}

}  // namespace tributary::train
