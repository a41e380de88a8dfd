#pragma once

#include <atomic>
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
  std::span<const std::int64_t> trained =
      {};  // ids, ascending, that the run has trained on already
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

  /// Begins with the global batch at which the loader stands. Model and loader must outlive this.
  /// `on_progress` is called while this rank waits for features; it may be empty.
  /// collective: over all ranks
  void open(model::Model& model, const mesh::Mesh& backbone, const data::Loader& loader,
            std::function<void()> on_progress);
  /// Lets encoders begin with a batch. Called by a thread of the loader, batch after batch.
  void plan(const DealtBatch& batch);
  /// Weights have changed: towers that train go on with them.
  void begin_step(std::int64_t first_index);
  /// Whether some module trains.
  [[nodiscard]] bool trains() const;
  /// The modalities of a sample whose rows this rank need not read, as encoders were asked for
  /// their features. Threads of the loader call this and the next.
  [[nodiscard]] ModalitySet made_elsewhere(std::int64_t sample);
  /// Whether a sample without rows has to be read whole: nobody encodes it, or who did found that
  /// its pixels are bad and took another record.
  [[nodiscard]] bool must_read(const data::EncodedSample& sample);
  /// The features of a microbatch, as the first stage of the backbone takes them. Where pixels turn
  /// out bad only now, they are zeros, and the step is in vain.
  [[nodiscard]] model::Features take(std::span<const data::EncodedSample* const> samples);
  /// The backward of a microbatch has come to its features.
  void lend_gradients(std::span<const data::EncodedSample* const> samples);
  /// Sets the gradients of the towers, which are not yet added up over the ranks. After the last
  /// backward of a step.
  void finish_gradients();
  /// Whether this rank has found bad pixels in the step, whose samples are then others.
  [[nodiscard]] bool is_in_vain() const { return is_in_vain_; }
  /// The step begins again: this rank reads the samples of the batch whole.
  void begin_again(std::int64_t first_index);
  /// What this rank took of the step until now, and how the pool is.
  [[nodiscard]] FlowUse use();
  void end_step();
  /// The samples of unfinished batches whose features encoders still have to make; none where there
  /// are no encoders. On rank 0.
  [[nodiscard]] std::set<std::int64_t> samples_without_features();
  /// The objects of a batch are not needed any more.
  void finish_batch(std::int64_t first_index);
  /// The run is over: its encoders end too.
  void finish();

 private:
  [[nodiscard]] std::int64_t step_of(std::int64_t first_index) const;
  /// Batches whose features may be in the pool at a time: by arrival, some of pool.ahead earlier
  /// ones may lack one sample.
  [[nodiscard]] std::int64_t steps_open() const;
  void add_pool(const memory::PoolCounts& now);
  /// Waits for the encoders of pool.encoders. collective: over all ranks
  void wait_for_encoders(const mesh::Group& world) const;
  /// Pages of the largest object that an encoder makes.
  [[nodiscard]] std::uint64_t max_pages() const;
  [[nodiscard]] std::uint64_t pages_of(const FlowModule& module, const SampleShape& shape) const;
  [[nodiscard]] at::Tensor features_of(const FlowModule& module, const data::EncodedSample& sample);
  /// Undefined where the pool has not got them.
  [[nodiscard]] at::Tensor take_from_pool(const FlowModule& module,
                                          const data::EncodedSample& sample);
  /// Encodes a sample, which is read first where it has come without rows. `might_come`: encoders
  /// were asked for it.
  [[nodiscard]] at::Tensor encode_here(const FlowModule& module, const data::EncodedSample& sample,
                                       bool might_come);
  /// Zeros of the right shape, for a step in vain.
  [[nodiscard]] at::Tensor no_features(const FlowModule& module,
                                       const data::EncodedSample& sample) const;
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
  const data::Loader* loader_ = nullptr;
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
  bool is_in_vain_ = false;
  std::atomic<std::int64_t> whole_until_ = 0;  // samples before this are read whole
  FlowUse use_;
  memory::PoolCounts counted_;  // at the end of the step before
  std::function<void()> on_progress_;

  std::mutex mutex_;               // guards the next one
  std::set<memory::Key> planned_;  // objects of unfinished batches
};

}  // namespace tributary::train
