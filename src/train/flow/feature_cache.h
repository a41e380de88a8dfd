#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "core/units.h"
#include "data/sample.h"
#include "train/flow/flow_module.h"

namespace tributary::train {

/// Features of a frozen encoder on disk: a file for the media of a sample, named after what went
/// in, so that it serves every epoch, every run and every process with the same weights. A file
/// appears whole or not at all.
class FeatureCache {
 public:
  /// `weights`: a digest of the encoder's, and all else on which bits depend
  /// max: beyond it this process writes nothing
  /// errors: Fault::kResource when the directory cannot be made
  FeatureCache(std::string directory, std::string weights, Bytes max);

  /// Null when they are not there. A file that cannot be read counts as none.
  [[nodiscard]] std::optional<at::Tensor> find(const FlowModule& module,
                                               const data::EncodedSample& sample) const;
  /// Keeps features; a full disk only means that they are not kept.
  void keep(const FlowModule& module, const data::EncodedSample& sample,
            const at::Tensor& features);

 private:
  [[nodiscard]] std::string path_of(const FlowModule& module,
                                    const data::EncodedSample& sample) const;

  std::string directory_, weights_;
  std::int64_t left_;  // bytes that may still be written
};

}  // namespace tributary::train
