#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/file/file_system.h"

namespace tributary {

/// Element types of safetensors files that we read and write. Any other is an error by name.
enum class StoredDtype {
  kBool,
  kUint8,
  kInt8,
  kFloat8E4m3,
  kFloat8E5m2,
  kInt16,
  kUint16,
  kFloat16,
  kBfloat16,
  kInt32,
  kUint32,
  kFloat32,
  kInt64,
  kUint64,
  kFloat64,
};

[[nodiscard]] std::uint64_t element_bytes(StoredDtype dtype);
/// As in the header of a file: F32, BF16, I64 and so on.
[[nodiscard]] std::string_view stored_name(StoredDtype dtype);

/// Name, type and shape of a tensor, without its place in a file.
struct TensorSpec {
  std::string name;
  StoredDtype dtype = StoredDtype::kFloat32;
  std::vector<std::int64_t> shape;

  [[nodiscard]] std::uint64_t bytes() const;
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// A tensor of a file.
struct StoredTensor : TensorSpec {
  std::uint64_t begin = 0;  // byte offsets in the file
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // by ascending begin; they fill the data part exactly
  std::map<std::string, std::string> metadata;
  std::uint64_t data_start = 0;
  std::uint64_t file_bytes = 0;
};

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

/// Reads and checks the header; docs/formats/safetensors.md lists every rule.
///
/// errors: Fault::kInput naming the file, the tensor and the rule that is broken
/// cost:   memory in proportion to the header, which is no larger than the file
[[nodiscard]] SafetensorsHeader read_safetensors_header(const InputFile& file);

/// As above, for bytes in memory: `head` holds the first bytes of a file of `file_bytes` bytes.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::span<const std::byte> head,
                                                         std::uint64_t file_bytes,
                                                         const std::string& where);

/// A file of weights mapped into memory for reading; nobody may change the file meanwhile.
class MappedSafetensors {
 public:
  explicit MappedSafetensors(const std::string& path);
  ~MappedSafetensors();
  MappedSafetensors(MappedSafetensors&& other) noexcept;
  MappedSafetensors& operator=(MappedSafetensors&&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const SafetensorsHeader& header() const { return header_; }
  /// owns: the mapping, as long as this lives; `begin` of a tensor may be unaligned for its type
  [[nodiscard]] std::span<const std::byte> bytes(const StoredTensor& tensor) const;

 private:
  std::string path_;
  SafetensorsHeader header_;
  const std::byte* map_ = nullptr;
};

/// A tensor to be written: what it is and its bytes, C order, little endian.
struct TensorBytes : TensorSpec {
  std::span<const std::byte> data;
};

/// Sizes and checksums of a finished file, for a manifest.
struct WrittenFile {
  std::uint64_t bytes = 0;
  std::uint64_t data_start = 0;
  std::uint32_t crc32c = 0;                 // of the whole file
  std::vector<std::uint32_t> block_crc32c;  // one per kChecksumBlock from offset 0
  std::vector<StoredTensor> tensors;        // in file order
};

inline constexpr std::uint64_t kChecksumBlock = std::uint64_t{4} << 20;

/// Checksums of a stream of bytes: per block of kChecksumBlock bytes, and of the whole.
class BlockChecksums {
 public:
  void add(std::span<const std::byte> bytes);
  [[nodiscard]] std::vector<std::uint32_t> blocks() const;
  [[nodiscard]] std::uint32_t whole() const;
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  std::vector<std::uint32_t> full_;
  std::uint32_t current_ = 0;
  std::uint64_t bytes_ = 0;
};

/// Writes one file as a stream, tensor by tensor in canonical order, checksums on the way.
///
/// The header is padded with spaces so that data starts at a multiple of 4096; tensors are ordered
/// by descending element size, then name: equal content gives equal bytes.
class SafetensorsWriter {
 public:
  /// errors: Fault::kBug when a name is used twice
  SafetensorsWriter(FileSystem& files, const std::string& path, std::vector<TensorSpec> tensors,
                    const std::map<std::string, std::string>& metadata);

  /// In the order in which their bytes must be appended.
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const { return tensors_; }
  void append(std::span<const std::byte> bytes);
  /// Syncs the file. errors: Fault::kBug when bytes are missing
  [[nodiscard]] WrittenFile finish();

 private:
  OutputFile file_;
  std::vector<StoredTensor> tensors_;
  std::uint64_t data_start_ = 0;
  BlockChecksums checksums_;
};

/// Writes all tensors into one file and syncs it.
WrittenFile write_safetensors(FileSystem& files, const std::string& path,
                              std::span<const TensorBytes> tensors,
                              const std::map<std::string, std::string>& metadata = {
                                  {"format", "pt"}});

}  // namespace tributary
