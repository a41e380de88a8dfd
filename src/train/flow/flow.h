#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "config/run/run_config.h"
#include "core/sample_shape.h"
#include "data/loader/loader.h"
#include "data/sample.h"
#include "memory/progress/pool_controller.h"
#include "memory/progress/pool_reader.h"
#include "mesh/mesh.h"
#include "model/model.h"
#include "schedule/packed_bins.h"
#include "train/flow/flow_module.h"
#include "train/metrics/step_metrics.h"

namespace tributary::train {

class TowerLender;

/// A global batch as it was dealt.
struct DealtBatch {
  std::int64_t first_index = 0;
  std::span<const SampleShape> shapes;                 // of all samples
  std::span<const schedule::PackedBins> microbatches;  // [replicas] bins of samples of the batch
};

/// This rank's part in a run whose features come through the pool: rank 0 tells the pool which
/// samples come next, and the ranks with the first stage of the backbone take features. What nobody
/// has made in time a rank encodes itself, with the same bits. So encoders may be slow, die, come
/// and leave, and no loss changes.
///
/// owns: threads of the pool, from open() on
class Flow {
 public:
  /// `modules` is not empty.
  Flow(const config::RunConfig& config, std::vector<FlowModule> modules);
  ~Flow();
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  /// Begins with the global batch at which the loader stands. The model must outlive this.
  /// `on_progress` is called while this rank waits for features; it may be empty.
  /// collective: over all ranks
  void open(model::Model& model, const mesh::Mesh& backbone, const data::Loader& loader,
            std::function<void()> on_progress);
  /// Lets encoders begin with a batch. Called by a thread of the loader, batch after batch.
  void plan(const DealtBatch& batch);
  /// Weights have changed: towers that train go on with them.
  void begin_step(std::int64_t first_index);
  /// The features of a microbatch, as the first stage of the backbone takes them.
  [[nodiscard]] model::Features take(std::span<const data::EncodedSample* const> samples);
  /// The backward of a microbatch has come to its features.
  void lend_gradients(std::span<const data::EncodedSample* const> samples);
  /// Sets the gradients of the towers, which are not yet added up over the ranks. After the last
  /// backward of a step.
  void finish_gradients();
  /// The objects of a batch are not needed any more. Returns what this rank took of it.
  FlowUse finish_step(std::int64_t first_index);
  /// The run is over: its encoders end too.
  void finish();

 private:
  [[nodiscard]] std::int64_t step_of(std::int64_t first_index) const;
  /// Waits for the encoders of pool.encoders. collective: over all ranks
  void wait_for_encoders(const mesh::Group& world) const;
  /// Pages of the largest object that an encoder makes.
  [[nodiscard]] std::uint64_t most_pages() const;
  [[nodiscard]] std::uint64_t pages_of(const FlowModule& module, const SampleShape& shape) const;
  [[nodiscard]] at::Tensor features_of(const FlowModule& module, const data::EncodedSample& sample);
  /// Undefined where the pool has not got them.
  [[nodiscard]] at::Tensor take_from_pool(const FlowModule& module,
                                          const data::EncodedSample& sample);
  [[nodiscard]] std::optional<memory::PoolObject> wait_for(const memory::Key& key);
  [[nodiscard]] memory::Key key_of_features(const FlowModule& module, std::int64_t sample) const;
  [[nodiscard]] std::unique_ptr<TowerLender> make_lender(const mesh::Mesh& backbone);
  /// Whether some encoder was asked for the object.
  [[nodiscard]] bool is_planned(const memory::Key& key);
  /// The digests of the towers' weights, which the ranks of the first stage have.
  /// collective: over all ranks
  [[nodiscard]] std::map<std::string, std::string> digest_towers(const mesh::Mesh& backbone) const;

  config::RunConfig config_;
  std::vector<FlowModule> modules_;
  model::Model* model_ = nullptr;
  std::uint64_t page_bytes_ = 0;
  std::uint64_t next_planned_ = 0;  // step
  std::uint32_t readers_ = 1;       // of a replica: the ranks of its first stage
  std::unique_ptr<memory::PoolController> controller_;  // of rank 0
  std::unique_ptr<memory::PoolReader> reader_;          // with the first stage of the backbone
  std::unique_ptr<TowerLender> lender_;                 // null: no tower trains
  // A step on pairs takes the features of a microbatch twice: for the reference, and to train.
  bool keeps_ = false;
  std::map<memory::Key, at::Tensor> kept_;
  bool waits_ = true;  // until this rank has waited in vain, once a step
  FlowUse use_;
  std::function<void()> on_progress_;

  std::mutex mutex_;               // guards the next one
  std::set<memory::Key> planned_;  // objects of unfinished batches
};

}  // namespace tributary::train
