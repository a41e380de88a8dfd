#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/run/run_config.h"
#include "memory/progress/pool_producer.h"
#include "memory/protocol/event.h"
#include "train/flow/flow.h"
#include "train/flow/tower_objects.h"

namespace tributary::train {

/// A rank's part in the training of towers whose encoders are beside the run: lends weights and
/// gradients of features, and adds up the gradients of the weights that come back. What nobody has
/// made in time it makes itself, with the same bits, for sums have one order: the samples of a
/// group, and the groups as microbatches come.
///
/// The ranks with the first stage of the backbone keep values, gradients and moments of the towers,
/// as of any other module.
class TowerLender {
 public:
  struct Options {
    std::uint32_t consumers = 1;
    std::int64_t consumer = -1;  // as which this rank takes objects; -1: it plans only
    std::uint64_t page_bytes = 0, max_pages = 0;  // of an object
    /// Takes an object of the pool; waits for it, or looks whether it is there.
    std::function<std::optional<memory::PoolObject>(const memory::Key&, bool waits)> take = {};
    std::function<bool(const memory::Key&)> is_planned = {};
    FlowUse* use = nullptr;
  };

  /// collective: over all ranks, among which `world` is
  /// errors: Fault::kInput where encoders have too little memory
  TowerLender(const config::RunConfig& config, std::vector<FlowModule> modules, model::Model& model,
              const mesh::Group& world, Options options);

  /// Joins the pool, once its controller listens.
  void join();
  /// The size of the pieces in which weights travel.
  [[nodiscard]] std::int64_t piece_bytes() const { return piece_bytes_; }
  /// Adds the objects of a batch to those of the pool, and to those that its samples need.
  ///
  /// shape: keys [samples of the batch] of each
  void plan(const DealtBatch& batch, std::uint64_t step,
            std::vector<memory::PlannedObject>& objects,
            std::vector<std::vector<memory::Key>>& keys) const;
  /// Lends the weights of a step.
  void begin_step(std::uint64_t step, std::int64_t first_sample);
  /// Makes leaves of the features of a group, which then want a gradient.
  ///
  /// shape: features [samples], undefined where a sample has none; `samples` outlive the step
  void take_leaves(const FlowModule& module, std::span<const data::EncodedSample* const> samples,
                   std::span<at::Tensor> features);
  /// The backward of a group is done: lends the gradients of its features.
  void lend_gradients(std::span<const data::EncodedSample* const> samples);
  /// Sets the gradients of the towers to the sums of this rank's groups.
  void finish_gradients();
  void finish_step(std::uint64_t step);

 private:
  struct Module {
    FlowModule module;
    FlatTower tower;
    Pieces values, gradient;
    at::Tensor sum = {};  // of the groups so far; undefined: none
  };
  struct Group {
    Module* of = nullptr;
    std::int64_t first_sample = 0;                         // of the microbatch
    std::vector<const data::EncodedSample*> samples = {};  // those with features
    std::vector<at::Tensor> leaves = {};                   // features, until backward is done
    std::vector<FeatureGradient> gradients = {};           // from then on
    bool is_lent = false;                                  // the gradients
    std::vector<memory::PoolObject> pieces = {};           // of the gradient, which have come
  };

  [[nodiscard]] std::uint32_t pages_of(Bytes bytes) const;
  /// False: the pool has no room for it.
  bool lend(const memory::Key& key, std::span<const std::byte> bytes, std::uint32_t tokens);
  /// The task of an object that this rank lends.
  [[nodiscard]] std::optional<memory::PoolProducer::Task> task_of(const memory::Key& key);
  /// Adds groups up, in their order, as far as they are there.
  void add_groups(bool waits);
  /// The gradient of a group; undefined where it has not come.
  [[nodiscard]] at::Tensor take_gradient(Group& group, bool waits);
  [[nodiscard]] at::Tensor make_gradient(const Group& group);

  config::RunConfig config_;
  model::Model& model_;
  Options options_;
  std::vector<Module> modules_;
  std::int64_t piece_bytes_ = 0;
  std::unique_ptr<memory::PoolProducer> producer_;
  std::map<memory::Key, memory::PoolProducer::Task> tasks_;
  bool waits_for_tasks_ = true;  // until this rank has waited in vain, once a step
  std::uint64_t step_ = 0;
  std::deque<Group> groups_;  // of the step, that are not added yet
};

}  // namespace tributary::train
