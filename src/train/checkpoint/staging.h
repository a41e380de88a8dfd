#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/commit.h"

namespace tributary::train {

/// Reads tensors in pieces: those of a device through two blocks of pinned host memory, one of
/// which is filled while the other is taken.
///
/// owns: two blocks from the first tensor of a device on
class BlockReader {
 public:
  static constexpr std::int64_t kBlockBytes = std::int64_t{64} << 20;

  explicit BlockReader(std::int64_t block_bytes = kBlockBytes) : block_bytes_(block_bytes) {}

  /// Hands the bytes of a tensor to `sink`, row-major. A tensor in host memory that is contiguous
  /// is one piece, without a copy.
  ///
  /// stream: the current one of the tensor's device; the host waits for each block
  void read(const at::Tensor& tensor, const ByteSink& sink);
  /// As read(), but a tensor of the host goes through the blocks too.
  void read_through_blocks(const at::Tensor& tensor, const ByteSink& sink);

 private:
  std::int64_t block_bytes_;
  std::array<at::Tensor, 2> blocks_;  // [block_bytes] u8
};

/// The content of a checkpoint, ready to be written.
struct StagedContent {
  std::int64_t step = 0;
  std::string global;  // extra/global.json
  std::string config_sha256;
  std::string score;  // %.17g; empty: none
  std::vector<ChunkToSave> model;
  std::vector<ChunkToSave> optimizer;
  std::vector<ChunkToSave> generators;
  std::uint64_t bytes = 0;
};

/// A score as a manifest holds it; one that is not finite ranks nowhere, so it is none.
[[nodiscard]] std::string score_text(std::optional<double> score);

/// Makes the content of a checkpoint ready to be written. One save at a time.
class Staging {
 public:
  /// Copies the content: it may change as soon as this returns.
  ///
  /// owns: pageable host memory as large as the content, kept from save to save
  [[nodiscard]] StagedContent copy(const CheckpointContent& content, std::optional<double> score);
  /// Keeps views: the content is read only when it is written, and must not change until then.
  ///
  /// owns: no more than a BlockReader
  [[nodiscard]] StagedContent borrow(const CheckpointContent& content, std::optional<double> score);

 private:
  void reserve(const CheckpointContent& content);
  [[nodiscard]] std::vector<ChunkToSave> copy_tensors(const std::vector<NamedTensor>& tensors);
  [[nodiscard]] std::vector<ChunkToSave> borrow_tensors(const std::vector<NamedTensor>& tensors);

  BlockReader reader_;
  at::Tensor buffer_;  // [bytes] u8
  std::uint64_t used_ = 0;
};

}  // namespace tributary::train
