#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "mesh/transport/group.h"
#include "parallel/layout.h"

namespace tributary::parallel {

class PassObserver;
class Unit;
class WeightQueue;

struct ChainOptions {
  Release release = Release::kAfterForward;
  int prefetch = 1;              // units whose gather is under way ahead of the one that computes
  bool reduce_in_f32 = true;     // gradients of narrower parameters
  bool reduce_once = false;      // after the last microbatch, of sums as wide as it
  bool splits_backward = false;  // weight gradients can be put off (WeightQueue)
  bool ulysses_async = false;    // heads travel while the next are projected
  bool keep_values_on_host = false;     // shards of parameters, between their uses
  bool keep_optimizer_on_host = false;  // moments and master weights
};

/// What the sharded units of one model share: their order, memory that passes from one to the next,
/// and the reductions under way.
class UnitChain {
 public:
  explicit UnitChain(ChainOptions options) : options_(options) {}

  [[nodiscard]] const ChainOptions& options() const { return options_; }
  /// While decoding, where single tokens cannot be split, every rank of a replica holds all tokens.
  void keep_tokens_whole(bool whole) { tokens_are_whole_ = whole; }
  [[nodiscard]] bool keeps_tokens_whole() const { return tokens_are_whole_; }

  /// Where weight gradients of the backward pass under way wait; null: they do not.
  void set_put_off(WeightQueue* queue) { put_off_ = queue; }
  [[nodiscard]] WeightQueue* put_off() const { return put_off_; }

  /// Whether linear maps from now on can put their weight gradients off.
  void split_backward(bool splits) { options_.splits_backward = splits; }

  /// Who is told when passes of layers begin and end; null: nobody. It must outlive the passes.
  void set_observer(PassObserver* observer) { observer_ = observer; }
  [[nodiscard]] PassObserver* observer() const { return observer_; }

  /// In the order of the forward pass, which is that of construction.
  void append(Unit& unit) { units_.push_back(&unit); }

  /// Begins a forward or a backward of a virtual stage: only its units are gathered ahead.
  void begin_pass(int virtual_stage);
  /// Starts gathers of the next units of the forward, or of those before `place` that will run
  /// backward.
  void prefetch_after(std::size_t place);
  void prefetch_before(std::size_t place);
  /// Lets at most two reductions be under way: their buffers are as large as whole units.
  void add_reduction(Unit& unit);
  /// Begins the last backward of a virtual stage in this step, after which its units are complete.
  void begin_last_backward(int virtual_stage) { in_last_backward_.insert(virtual_stage); }
  [[nodiscard]] bool is_in_last_backward(int virtual_stage) const {
    return in_last_backward_.contains(virtual_stage);
  }
  /// Starts to add complete gradients over dp_replicate, from the last unit to the first on all
  /// replicas: those that hold other media complete their units in another order.
  /// collective: over dp_replicate
  void add_over_replicas();
  /// Ends all reductions after the last microbatch of a step, and starts those held back before.
  /// collective: over shard and dp_replicate
  void finish_reductions();

  /// Takes the memory of a freed buffer of this size on this device, or allocates it there.
  [[nodiscard]] at::DataPtr take(std::size_t bytes, at::Device device);
  void give_back(at::DataPtr memory, std::size_t bytes);
  [[nodiscard]] std::size_t size() const { return units_.size(); }

 private:
  ChainOptions options_;
  bool tokens_are_whole_ = false;
  WeightQueue* put_off_ = nullptr;
  PassObserver* observer_ = nullptr;
  std::vector<Unit*> units_;
  std::size_t pass_first_ = 0;              // of the pass under way: its units
  std::optional<std::size_t> pass_end_;     // null: not told, so all units
  std::optional<std::size_t> forward_at_;   // the latest place of a forward
  std::optional<std::size_t> backward_at_;  // likewise
  std::deque<Unit*> reducing_;
  std::set<int> in_last_backward_;  // virtual stages
  std::size_t over_replicas_ = 0;   // units, from the last one, whose sums are under way
  bool all_are_complete_ = false;
  std::vector<mesh::Pending> adding_;
  std::multimap<std::pair<std::string, std::size_t>, at::DataPtr> free_;  // by device and bytes
};

}  // namespace tributary::parallel
