#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "config/family/known_modules.h"
#include "config/run/run_config.h"
#include "core/sample_shape.h"
#include "core/units.h"
#include "data/sample.h"
#include "memory/wire/structures.h"
#include "model/model.h"

namespace tributary::train {

/// An encoder whose features come from processes of the verb `encoder`, by way of the pool.
/// One object holds the features of all items of one sample that it takes.
struct FlowModule {
  std::string name;
  std::uint16_t part = 0;       // of an object's key: the place among the encoders of the model
  std::vector<Modality> takes;  // in whose order an object holds its items
  bool trains = false;          // its objects are of one step: tower_objects.h
};

/// The modules with placement `flow`, ascending by name.
[[nodiscard]] std::vector<FlowModule> flow_modules(const config::RunConfig& run,
                                                   const config::ModelConfig& model);

/// The type of features in the pool. errors: Fault::kBug for another than f32 and bf16
[[nodiscard]] memory::ElementType element_type(at::ScalarType type);

/// The object with the features of a sample. units: `sample` is EncodedSample::id
[[nodiscard]] memory::Key key_of(const FlowModule& module, std::int64_t sample);

/// Names the record behind a sample. Where one process cannot read a record, and takes another in
/// its place, features of both may have one size.
[[nodiscard]] std::uint32_t record_mark(const data::EncodedSample& sample);

/// Whether a sample has media of the module that were not read.
[[nodiscard]] bool lacks_rows(const FlowModule& module, const data::EncodedSample& sample);

/// The rows of features of each modality of a sample; none where it has no such items.
[[nodiscard]] std::vector<std::int64_t> feature_rows(const model::Model& model,
                                                     const FlowModule& module,
                                                     const SampleShape& shape);
/// The size of the object of a sample; 0 without items.
[[nodiscard]] Bytes feature_bytes(const model::Model& model, const FlowModule& module,
                                  const SampleShape& shape);

/// Encodes the items of one sample in one pass of the whole tower, which this process holds: the
/// same bits in every process with as many compute threads. Items of a frozen one that are the
/// same, as those of the answers of a pair, are encoded once.
///
/// shape: returns [features, feature_width], modality after modality
[[nodiscard]] at::Tensor encode_features(model::Model& model, const FlowModule& module,
                                         const data::EncodedSample& sample, at::Device device);
/// The same with the graph for a backward. shape: as encode_features
[[nodiscard]] at::Tensor run_tower(model::Model& model, const FlowModule& module,
                                   const data::EncodedSample& sample, at::Device device);

/// The features that this rank of the first stage projects of a pack, modality after modality, from
/// those of its samples: those of all items, or its share where cp and ulysses split the pack.
///
/// shape: of_samples [samples] as encode_features gives them, undefined where a sample has none;
///        returns undefined where it has no items
[[nodiscard]] at::Tensor join_features(const model::Model& model, const FlowModule& module,
                                       std::span<const data::EncodedSample* const> samples,
                                       std::span<const at::Tensor> of_samples);

}  // namespace tributary::train
