#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "config/family/model_config.h"
#include "config/run/adapter.h"
#include "config/run/run_config.h"
#include "core/sample_shape.h"
#include "parallel/adapter.h"
#include "parallel/language_head.h"
#include "parallel/layer_boundary.h"
#include "parallel/unit.h"

namespace tributary::model {

/// Items of one modality in a pack, or those that an encoder with ranks of its own takes in one
/// pass on this rank; there may be none. On its later stages the rows are undefined.
struct EncoderInput {
  at::Tensor rows;          // [input rows, their width] f32, item after item; undefined: none
  std::vector<Grid> grids;  // of the items
};

/// Rows that encoders with ranks of their own made, item after item, by module.
using Features = std::map<std::string, at::Tensor>;

/// What a virtual stage of the backbone takes.
struct StageInput {
  at::Tensor hidden = {};  // [rows, input_width(stage)] of the stage before; undefined at the first
  Features features = {};  // at the first stage
};

/// Samples back to back, as every model takes them.
struct PackedBatch {
  at::Tensor input_ids;  // [tokens] i64, on the host; media placeholders already expanded
  std::vector<std::int32_t> cu_seqlens;  // [samples + 1]: first token of each sample, then the end
  // [3, tokens] i64 on the host (time, row, column); text models use row 0
  at::Tensor position_ids;
  std::map<Modality, EncoderInput> media = {};  // in order of appearance over the whole pack
  /// Runs this rank's part of the encoders that have ranks of their own, and returns the features
  /// that its first stage of the backbone takes: those of its tokens, or of the whole pack while
  /// tokens are whole. None elsewhere. Null: all encoders are inline.
  /// collective: over the ranks of encoders and backbone
  std::function<Features(bool tokens_are_whole)> encode_apart = {};

  /// The items of one modality; there may be none.
  [[nodiscard]] const EncoderInput& of(Modality modality) const;
  [[nodiscard]] bool has_media() const;
};

/// How the modules of a model lie over the ranks. An encoder without a layout of its own runs in
/// the first stage of the backbone.
struct ModelLayout {
  // Not explicit: a model whose modules all lie in one mesh is the plain case.
  ModelLayout(parallel::Layout of_backbone = {})  // NOLINT(google-explicit-constructor)
      : backbone(std::move(of_backbone)) {}

  parallel::Layout backbone;
  std::map<std::string, parallel::Layout> encoders = {};  // by module
};

/// Keys and values of the tokens seen so far, for decoding.
class KvCache;

/// One model of a family. Built from config.json; parameters live in units.
///
/// Construction declares parameters only; materialize the units, then load or initialise them.
class Model {
 public:
  virtual ~Model() = default;

  [[nodiscard]] const config::ModelConfig& config() const { return config_; }
  /// Of the backbone, its embedding and its head.
  [[nodiscard]] const parallel::Layout& layout() const { return layouts_.backbone; }
  /// By module: of the encoders with ranks of their own.
  [[nodiscard]] const std::map<std::string, parallel::Layout>& encoder_layouts() const {
    return layouts_.encoders;
  }
  /// In order of the forward pass; the tied head is the embedding's parameter.
  /// The unit of adapters lies behind that of their linear maps.
  [[nodiscard]] std::span<const std::unique_ptr<parallel::Unit>> units() const { return units_; }
  /// Where it computes. Known once its units are materialized.
  [[nodiscard]] at::Device device() const { return units_.front()->whole_options().device(); }
  /// Lists the units of adapters too; once, after construction.
  void take_adapters();

  /// shape: returns the final hidden states [tokens, width], before the final norm and the head;
  ///        where the layout splits tokens, those that this rank keeps (parallel::TokenSplit).
  ///        Undefined on ranks without the last pipeline stage
  /// errors: Fault::kInput when media rows and placeholders do not match
  /// collective: over shard, tp, cp, ulysses and pp; all ranks take part, whatever media their
  /// batch holds
  [[nodiscard]] at::Tensor forward(const PackedBatch& batch);
  /// Runs one virtual stage of the backbone, which this rank holds.
  /// shape: returns [rows, input_width(stage + 1)]
  [[nodiscard]] virtual at::Tensor run_stage(int stage, const PackedBatch& batch,
                                             const StageInput& input) = 0;
  /// Allocates what a later virtual stage takes from the one before.
  /// shape: [rows, input_width(stage)]
  [[nodiscard]] at::Tensor empty_input(int stage, const PackedBatch& batch) const;
  /// The width of what a virtual stage of the backbone takes: that of its hidden states, and of
  /// further levels of features that lie beside them until their layers.
  [[nodiscard]] virtual std::int64_t input_width(int stage) const;

  /// Runs one virtual stage of an encoder with ranks of its own, which this rank holds. Without
  /// items it computes something all the same, since other ranks may gather parameters with it.
  /// shape: input [rows, width] as the stage before returned it, undefined for the first ->
  ///        returns [rows, width], and from the last stage features, item after item
  [[nodiscard]] virtual at::Tensor run_encoder_stage(const std::string& module, int stage,
                                                     const EncoderInput& media,
                                                     const at::Tensor& input);
  /// Allocates what a later virtual stage of an encoder takes. shape: [rows, width]
  [[nodiscard]] virtual at::Tensor empty_encoder_input(const std::string& module, int stage,
                                                       const EncoderInput& media) const;
  /// The rows that an encoder gives for an item, and their width.
  [[nodiscard]] virtual std::int64_t feature_rows(const std::string& module,
                                                  const Grid& item) const;
  [[nodiscard]] virtual std::int64_t feature_width(const std::string& module) const;

  /// shape: hidden [rows, width] as forward returns them -> [rows, vocab]
  [[nodiscard]] at::Tensor head(const at::Tensor& hidden);
  /// Runs `body` on the normalised hidden states, while the weight of `language_head` is whole.
  /// shape: hidden [rows, width] as forward returns them -> returns what `body` returns
  [[nodiscard]] virtual at::Tensor run_head(const at::Tensor& hidden, parallel::LayerBody body) = 0;
  /// The block behind `head`; only for calls within `run_head`.
  [[nodiscard]] virtual const parallel::LanguageHead& language_head() const = 0;

  /// Runs the prompts of all samples and fills a fresh cache.
  /// shape: returns the final hidden state of each sample's last token [samples, width]; undefined
  ///        as for `forward`
  [[nodiscard]] at::Tensor prefill(const PackedBatch& batch, KvCache& cache);
  /// Runs one more token for every sample in the cache.
  /// shape: token_ids [samples] i64 -> returns [samples, width], or undefined
  [[nodiscard]] at::Tensor decode(const at::Tensor& token_ids, KvCache& cache);

  /// Says what the layers of a module keep for backward.
  virtual void set_keep(const parallel::KeepOf& keep_of) = 0;
  /// `offload` lists modules whose layers run again from inputs kept in host memory.
  void set_recompute(std::span<const config::ModuleRecompute> recompute,
                     std::span<const std::string> offload = {});

 protected:
  [[nodiscard]] virtual at::Tensor prefill_stage(int stage, const PackedBatch& batch,
                                                 const StageInput& input, KvCache& cache) = 0;
  /// shape: input [samples, width], undefined for the first stage, which embeds the tokens
  [[nodiscard]] virtual at::Tensor decode_stage(int stage, const at::Tensor& token_ids,
                                                const at::Tensor& input, KvCache& cache) = 0;

  Model(config::ModelConfig config, ModelLayout layouts)
      : config_(std::move(config)), layouts_(std::move(layouts)) {}
  config::ModelConfig config_;
  ModelLayout layouts_;
  std::vector<std::unique_ptr<parallel::Unit>> units_;
};

/// Makes the model of the configuration's family, without storage for its parameters. The linear
/// maps that the layouts' rules want have adapters.
[[nodiscard]] std::unique_ptr<Model> make_model(const config::ModelConfig& config,
                                                const ModelLayout& layouts = {});

/// The layout of a model on one rank, with adapters where the section has some.
[[nodiscard]] ModelLayout one_rank_layout(const config::ModelSection& section);
/// What the blocks must know of a section's adapters; null: it has none.
[[nodiscard]] std::shared_ptr<const parallel::AdapterRules> adapter_rules(
    const config::ModelSection& section);
/// Whether the section trains a unit: of a run with adapters only those.
[[nodiscard]] bool trains(const config::ModelSection& section, const parallel::Unit& unit);
/// The linear maps of a model that can have an adapter, in order of the forward pass.
[[nodiscard]] std::vector<config::LinearMap> list_linear_maps(const config::ModelConfig& config);

/// Called while parameters are filled, at least once for each; empty: nobody waits for progress.
using OnProgress = std::function<void()>;

/// Sets every parameter as its initializer says. A value depends only on (seed, parameter name) and
/// its place, not on ranks or threads.
/// collective: as initialize_adapters
void initialize(Model& model, std::uint64_t seed, const OnProgress& on_progress = {});
/// Sets only the adapters, so that they change nothing yet: A by the seed, B to 0, magnitudes by
/// the weights.
/// collective: over shard and tp, with magnitudes
void initialize_adapters(Model& model, std::uint64_t seed, const OnProgress& on_progress = {});

/// Fills every parameter but those of adapters from the safetensors of a Hugging Face directory
/// (single or sharded).
///
/// Accepts the layout of released checkpoints and the one of transformers 5.x.
/// errors: Fault::kInput listing all missing, unexpected and mis-shaped tensors by name
void load_weights(Model& model, const std::string& directory, const OnProgress& on_progress = {});

/// Writes config.json and safetensors in the layout of released checkpoints.
/// `source_directory` gives config.json and, where present, the tokenizer's files.
void export_weights(const Model& model, const std::string& source_directory,
                    const std::string& directory);

inline constexpr std::int64_t kMaxLogits = std::int64_t{1} << 26;

/// The cross entropy of each target position of a pack, in f32.
struct TargetLosses {
  at::Tensor own;     // [targets of this rank's tokens] differentiable
  at::Tensor places;  // [likewise] i64 on the host: their places in `rows`
  at::Tensor rows;    // [targets] of the pack, whatever rank has computed them; without gradient
};

/// shape: hidden as Model::forward gives it, targets [tokens] i64 of the whole pack, on the host;
///        -100 where nothing is predicted
/// collective: over shard, tp, cp and ulysses
/// cost:  the head runs only on target rows; above `max_logits` logits in chunks, which backward
///        computes again, so that a vocabulary of 150,000 does not keep gigabytes
[[nodiscard]] TargetLosses target_losses(Model& model, const at::Tensor& hidden,
                                         const at::Tensor& targets,
                                         std::span<const std::int32_t> cu_seqlens,
                                         std::int64_t max_logits = kMaxLogits);

/// Sum over target positions of the cross entropy, in f32, and how many there are.
struct LossSum {
  at::Tensor sum;   // scalar f32, differentiable; of this rank's tokens where ranks share a pack
  at::Tensor rows;  // [targets] f32, the loss of each target row of the pack; without gradient
  std::int64_t targets = 0;  // of the pack
};

/// As target_losses.
[[nodiscard]] LossSum sum_loss(Model& model, const at::Tensor& hidden, const at::Tensor& targets,
                               std::span<const std::int32_t> cu_seqlens,
                               std::int64_t max_logits = kMaxLogits);

}  // namespace tributary::model
