#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/file/safetensors.h"

namespace tributary {

/// The weights of a Hugging Face directory, mapped: model.safetensors, or the shards that
/// model.safetensors.index.json names. Also opens one .safetensors file.
class WeightDirectory {
 public:
  /// errors: Fault::kInput when there are no weights; with ExitCode::kCheckpointRefused when a
  ///         shard is missing or damaged, when the index names a path outside the directory, or
  ///         when index and shards disagree
  explicit WeightDirectory(const std::string& path);

  struct Place {
    const MappedSafetensors* file = nullptr;
    const StoredTensor* tensor = nullptr;
    [[nodiscard]] std::span<const std::byte> bytes() const { return file->bytes(*tensor); }
  };
  /// By name.
  [[nodiscard]] const std::map<std::string, Place>& tensors() const { return tensors_; }
  [[nodiscard]] const std::vector<MappedSafetensors>& files() const { return files_; }

 private:
  void add(MappedSafetensors file);
  void add_shards(const std::string& path);

  std::vector<MappedSafetensors> files_;
  std::map<std::string, Place> tensors_;
};

/// Gives the bytes of one tensor to `append`, in one or several pieces.
using GiveTensor = std::function<void(
    const TensorSpec& tensor, const std::function<void(std::span<const std::byte>)>& append)>;

struct HuggingFaceExport {
  std::string directory;         // to be made; must not exist yet
  std::string source_directory;  // gives config.json and, where present, the files beside it
  std::vector<TensorSpec> tensors;
  GiveTensor give;
  /// Begins the names in the directory of a larger model, whose other tensors are copied; or empty.
  std::string prefix = {};
  std::uint64_t max_shard_bytes = std::uint64_t{5'000'000'000};
};

/// Writes a directory that transformers loads: config.json, weights in one file or in shards with
/// their index, tokenizer and preprocessor files. It appears by one rename, whole.
///
/// errors: Fault::kInput when the directory exists or the source has no config.json;
///         Fault::kResource when the disk refuses, and then nothing is left behind
void write_hugging_face_directory(FileSystem& files, const HuggingFaceExport& content);

}  // namespace tributary
