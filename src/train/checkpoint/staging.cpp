#include "train/checkpoint/staging.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "core/json.h"
#include "core/sha256.h"
#include "ops/stored_dtype.h"

namespace tributary::train {
namespace {

constexpr std::uint64_t kStagingAlignment = 64;

std::uint64_t align(std::uint64_t bytes) {
  return (bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
}

/// The text of extra/global.json, the same for the same facts.
std::string compose_global(const CheckpointFacts& facts) {
  const Json json{{"step", facts.step},
                  {"config", facts.config},
                  {"model_directory", facts.model_directory},
                  {"identity", facts.identity},
                  {"state", parse_json(facts.state, "state of the run")}};
  return json.dump(1) + "\n";
}

bool is_written(const NamedTensor& tensor) {
  return !tensor.part || (tensor.part->is_written && tensor.value.numel() > 0);
}

/// Describes the bytes of a tensor, but not where they are read from.
ChunkToSave describe_chunk(const NamedTensor& tensor) {
  return {.name = tensor.name,
          .dtype = ops::stored_dtype(tensor.value.scalar_type()),
          .shape = tensor.whole_shape(),
          .box = tensor.box(),
          .read = {}};
}

std::vector<ChunkToSave> describe_generators(const std::map<std::string, std::string>& states) {
  std::vector<ChunkToSave> chunks;
  for (const auto& [name, state] : states) {
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(state.size())};
    chunks.push_back(
        {.name = name,
         .dtype = StoredDtype::kUint8,
         .shape = shape,
         .box = whole_box(shape),
         .read = [state](const ByteSink& sink) { sink(std::as_bytes(std::span(state))); }});
  }
  return chunks;
}

/// Stages everything but the tensors.
StagedContent stage_facts(const CheckpointContent& content, std::optional<double> score) {
  StagedContent staged{.step = content.step,
                       .global = compose_global(content),
                       .config_sha256 = sha256(content.config),
                       .score = score_text(score),
                       .model = {},
                       .optimizer = {},
                       .generators = describe_generators(content.generators),
                       .bytes = 0};
  staged.bytes = staged.global.size();
  for (const auto& [name, state] : content.generators) staged.bytes += state.size();
  for (const std::vector<NamedTensor>* tensors : {&content.model, &content.optimizer})
    for (const NamedTensor& tensor : *tensors)
      if (is_written(tensor)) staged.bytes += tensor.value.nbytes();
  return staged;
}

/// The end of a copy on the current stream of a device; on the host a copy is done at once.
class CopyEvent {
 public:
  explicit CopyEvent(c10::Device device) : device_(device) {
    if (!device.is_cpu()) event_.emplace(device.type());
  }
  void record() {
    if (event_) event_->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }
  void wait() const {
    if (event_) event_->synchronize();
  }

 private:
  c10::Device device_;
  std::optional<c10::Event> event_;
};

}  // namespace

std::string score_text(std::optional<double> score) {
  if (!score || !std::isfinite(*score)) return "";
  std::array<char, 40> text{};
  (void)std::snprintf(text.data(), text.size(), "%.17g", *score);
  return text.data();
}

void BlockReader::read(const at::Tensor& tensor, const ByteSink& sink) {
  if (!tensor.is_cpu()) return read_through_blocks(tensor, sink);
  const at::Tensor rows = tensor.detach().contiguous();
  sink({static_cast<const std::byte*>(rows.const_data_ptr()), rows.nbytes()});
}

void BlockReader::read_through_blocks(const at::Tensor& tensor, const ByteSink& sink) {
  const at::NoGradGuard no_grad;
  const at::Tensor bytes = tensor.detach().contiguous().view({-1}).view(at::kByte);
  for (at::Tensor& block : blocks_)
    if (!block.defined())
      block = at::empty({block_bytes_},
                        at::TensorOptions().dtype(at::kByte).pinned_memory(!tensor.is_cpu()));
  std::array<CopyEvent, 2> filled{CopyEvent(tensor.device()), CopyEvent(tensor.device())};
  const auto part_of = [&](std::size_t i) {
    const auto begin = static_cast<std::int64_t>(i) * block_bytes_;
    return bytes.narrow(0, begin, std::min(block_bytes_, bytes.numel() - begin));
  };
  const auto fill = [&](std::size_t i) {
    const at::Tensor part = part_of(i);
    blocks_[i % 2].narrow(0, 0, part.numel()).copy_(part, /*non_blocking=*/true);
    filled[i % 2].record();
  };
  const auto count = static_cast<std::size_t>((bytes.numel() + block_bytes_ - 1) / block_bytes_);
  for (std::size_t i = 0; i < count; ++i) {
    if (i == 0) fill(0);
    if (i + 1 < count) fill(i + 1);
    filled[i % 2].wait();
    sink({static_cast<const std::byte*>(blocks_[i % 2].const_data_ptr()),
          static_cast<std::size_t>(part_of(i).numel())});
  }
}

StagedContent Staging::copy(const CheckpointContent& content, std::optional<double> score) {
  StagedContent staged = stage_facts(content, score);
  reserve(content);
  staged.model = copy_tensors(content.model);
  staged.optimizer = copy_tensors(content.optimizer);
  return staged;
}

StagedContent Staging::borrow(const CheckpointContent& content, std::optional<double> score) {
  StagedContent staged = stage_facts(content, score);
  staged.model = borrow_tensors(content.model);
  staged.optimizer = borrow_tensors(content.optimizer);
  return staged;
}

void Staging::reserve(const CheckpointContent& content) {
  std::uint64_t bytes = 0;
  for (const std::vector<NamedTensor>* tensors : {&content.model, &content.optimizer})
    for (const NamedTensor& tensor : *tensors)
      if (is_written(tensor)) bytes += align(tensor.value.nbytes());
  used_ = 0;
  if (buffer_.defined() && static_cast<std::uint64_t>(buffer_.numel()) >= bytes) return;
  buffer_ = at::Tensor();  // before the new one: two at once may be too much
  buffer_ = at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
}

std::vector<ChunkToSave> Staging::copy_tensors(const std::vector<NamedTensor>& tensors) {
  std::vector<ChunkToSave> chunks;
  for (const NamedTensor& tensor : tensors) {
    if (!is_written(tensor)) continue;
    std::byte* const begin = static_cast<std::byte*>(buffer_.data_ptr()) + used_;
    used_ += align(tensor.value.nbytes());
    std::byte* end = begin;
    reader_.read(tensor.value, [&](std::span<const std::byte> piece) {
      std::memcpy(end, piece.data(), piece.size());
      end += piece.size();
    });
    chunks.push_back(describe_chunk(tensor));
    chunks.back().read = [place = std::span<const std::byte>(begin, end)](const ByteSink& sink) {
      sink(place);
    };
  }
  return chunks;
}

std::vector<ChunkToSave> Staging::borrow_tensors(const std::vector<NamedTensor>& tensors) {
  std::vector<ChunkToSave> chunks;
  for (const NamedTensor& tensor : tensors) {
    if (!is_written(tensor)) continue;
    chunks.push_back(describe_chunk(tensor));
    chunks.back().read = [this, value = tensor.value](const ByteSink& sink) {
      reader_.read(value, sink);
    };
  }
  return chunks;
}

}  // namespace tributary::train
