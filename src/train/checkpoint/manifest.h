#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/box.h"
#include "core/file/safetensors.h"

namespace tributary::train {

inline constexpr const char* kManifestName = "MANIFEST.json";
inline constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{1} << 30;

/// One file of a checkpoint, apart from the manifest itself.
struct ManifestFile {
  std::string name;  // relative: `model/shard-00001-model-00001-of-00001.safetensors`
  std::uint64_t bytes = 0;
  std::uint64_t data_start = 0;
  std::uint32_t crc32c = 0;
  std::vector<std::uint32_t> block_crc32c;  // one per kChecksumBlock from offset 0
};

/// A box of a tensor and where its bytes lie.
struct ManifestChunk {
  std::int64_t file = 0;  // index in files
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  Box box;
};

struct ManifestTensor {
  StoredDtype dtype = StoredDtype::kFloat32;
  std::vector<std::int64_t> shape;  // of the whole tensor
  std::vector<ManifestChunk> chunks;
};

/// What a checkpoint consists of. Its presence in a step directory is the commit record.
struct Manifest {
  std::string job;
  std::int64_t incarnation = 0;  // starts of this job so far
  std::int64_t step = 0;
  std::int64_t world = 1;  // ranks that wrote it
  std::string config_sha256;
  std::string model_sha256;  // of names, dtypes and shapes of the model's tensors
  std::string score;         // of the validation before it, %.17g; empty: none
  std::vector<ManifestFile> files;
  std::map<std::string, ManifestTensor> tensors;  // `model/<name>`, `optim/<name>`, `extra/<name>`
};

/// Canonical JSON: sorted keys, no spaces, whole numbers, ASCII; checksum of its own text.
[[nodiscard]] std::string write_manifest(const Manifest& manifest);

/// Whether a manifest speaks for a checkpoint or for what one rank wrote of it.
enum class Scope { kCheckpoint, kRank };

/// Parses and checks everything that can be known from the text alone: each tensor is covered by
/// its chunks exactly once (in the scope of a rank: at most once), each chunk lies in its file.
///
/// errors: Fault::kInput naming `where` and the tensor or file
[[nodiscard]] Manifest parse_manifest(std::string_view text, const std::string& where,
                                      Scope scope = Scope::kCheckpoint);

/// SHA-256 over the lines `name dtype shape` of the tensors under `model/`.
[[nodiscard]] std::string digest_model(const std::map<std::string, ManifestTensor>& tensors);

/// Refuses a tensor that its chunks do not cover exactly once; in a rank's scope at most once.
void check_coverage(const std::string& name, const ManifestTensor& tensor, const std::string& where,
                    Scope scope = Scope::kCheckpoint);

}  // namespace tributary::train
