#pragma once

#include <set>
#include <string>

#include <c10/core/Device.h>

#include "mesh/mesh.h"
#include "model/model.h"
#include "train/profile/layer_times.h"
#include "train/profile/live_bytes.h"

namespace tributary::train {

/// The kind of layer of a unit. A tied head's unit is the embedding.
[[nodiscard]] LayerKey key_of_unit(const config::ModelConfig& config, const parallel::Unit& unit);

/// Records when the passes of layers begin and end while a microbatch goes through a model.
///
/// On a device that runs behind the host, every moment waits for it. Attention cores are timed only
/// when asked for: that is two moments more in every pass of a block.
class PassClock final : public parallel::PassObserver {
 public:
  /// owns: nothing; the model and `bytes` outlive it
  PassClock(model::Model& model, LiveBytes& bytes, at::Device device);
  ~PassClock() override;
  PassClock(const PassClock&) = delete;
  PassClock& operator=(const PassClock&) = delete;

  /// Counts from now on only the time that this thread has a core, or all time but waits.
  void count_cpu(bool only) { counts_cpu_ = only; }
  void time_attention(bool times) { times_attention_ = times; }
  void on_pass(const parallel::Unit& unit, parallel::LayerPass pass) override;
  void on_attention(parallel::AttentionMark mark) override;
  void begin();
  [[nodiscard]] MarkedStretch end();

 private:
  [[nodiscard]] double now() const;
  [[nodiscard]] LayerMark mark() const;
  [[nodiscard]] LayerKey key_of(const parallel::Unit& unit, parallel::LayerPass pass);

  const parallel::Layout& layout_;
  const config::ModelConfig& config_;
  LiveBytes& bytes_;
  at::Device device_;
  bool head_is_embedding_;
  bool counts_cpu_ = false;
  bool times_attention_ = false;
  double attention_began_ = 0;
  double attention_ = 0;  // [s] since the clock was made
  MarkedStretch stretch_;
  std::set<parallel::LayerPass> embedding_seen_;
};

}  // namespace tributary::train
