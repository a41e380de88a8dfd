#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/file/file_system.h"
#include "core/file/safetensors.h"
#include "train/checkpoint/manifest.h"

namespace tributary::train {

/// Where one save goes and who makes it.
struct SaveKey {
  std::string root;  // holds step-<n>/
  std::string job;
  std::int64_t incarnation = 0;
  std::int64_t step = 0;

  [[nodiscard]] std::string final_path() const;      // <root>/step-<n>
  [[nodiscard]] std::string temporary_path() const;  // <root>/step-<n>.tmp-<job>-<incarnation>
};

/// Takes bytes, piece by piece.
using ByteSink = std::function<void(std::span<const std::byte>)>;

/// A rank's part of a tensor.
struct ChunkToSave {
  std::string name;  // `<name>` below its folder
  StoredDtype dtype = StoredDtype::kFloat32;
  std::vector<std::int64_t> shape;                 // of the whole tensor
  Box box;                                         // this part
  std::function<void(const ByteSink& sink)> read;  // hands on its bytes: row-major, of the box
};

/// What a rank tells rank 0 about a file that it wrote.
struct FileReport {
  ManifestFile file;
  std::map<std::string, ManifestTensor> tensors;  // with the chunks of this file; `file` is 0
};

/// Everything of the manifest that is not in the reports.
struct CommitFacts {
  std::int64_t world = 1;
  std::string config_sha256;
  std::string score;
};

// The three steps of a save (docs/formats/checkpoint.md). On one rank they follow each other; on
// several, rank 0 prepares, all write, rank 0 gathers the reports and commits.
//
// A rank may hold several boxes of a tensor: in its file all but the first are named `<name>#<n>`.

/// Makes the temporary directory, empty, and makes its name durable.
///
/// errors: Fault::kResource when less than 1.1 * needed_bytes is free
void prepare_save(FileSystem& files, const SaveKey& key, std::uint64_t needed_bytes);

/// Writes one rank's shard of `folder` (model, optim or extra) at its final name and syncs it.
///
/// errors: Fault::kResource; Fault::kBug when a chunk hands on another number of bytes than it has
[[nodiscard]] FileReport write_shard(FileSystem& files, const SaveKey& key,
                                     const std::string& folder, const std::string& name,
                                     std::span<const ChunkToSave> chunks);
/// Writes a file that holds no tensors and syncs it.
[[nodiscard]] FileReport write_extra(FileSystem& files, const SaveKey& key, const std::string& name,
                                     std::string_view text);
/// `shard-00001-model-00001-of-00001.safetensors` for rank 0 of 1.
[[nodiscard]] std::string shard_file_name(std::int64_t rank, std::int64_t world);

/// The reports as the text that a rank sends to rank 0, and the reports of such a text.
[[nodiscard]] std::string write_reports(const SaveKey& key, std::span<const FileReport> reports);
[[nodiscard]] std::vector<FileReport> parse_reports(const std::string& text,
                                                    const std::string& where);

/// Checks the reports against each other and the disk, writes the manifest, and renames.
///
/// errors: Fault::kBug when a tensor is not covered exactly once; Fault::kResource
void commit_save(FileSystem& files, const SaveKey& key, std::span<const FileReport> reports,
                 const CommitFacts& facts);

}  // namespace tributary::train
