#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/file/crc32c.h"
#include "core/file/safetensors.h"

namespace tributary {
namespace {

constexpr std::uint64_t kDataAlignment = 4096;

bool canonical_before(const TensorSpec& a, const TensorSpec& b) {
  const std::uint64_t a_bytes = element_bytes(a.dtype);
  const std::uint64_t b_bytes = element_bytes(b.dtype);
  return a_bytes != b_bytes ? a_bytes > b_bytes : a.name < b.name;
}

/// The header with its length field and padding; sets the tensors' places in the file.
std::string compose_header(std::vector<StoredTensor>& tensors,
                           const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += str("\"__metadata__\":", nlohmann::json(metadata).dump());
  std::uint64_t offset = 0;
  for (StoredTensor& tensor : tensors) {
    tensor.begin = offset;
    offset += tensor.bytes();
    tensor.end = offset;
    text += str(text.size() > 1 ? "," : "", nlohmann::json(tensor.name).dump(), ":{\"dtype\":\"",
                stored_name(tensor.dtype), "\",\"shape\":", nlohmann::json(tensor.shape).dump(),
                ",\"data_offsets\":[", tensor.begin, ",", tensor.end, "]}");
  }
  text += "}";
  text.resize((text.size() + 8 + kDataAlignment - 1) / kDataAlignment * kDataAlignment - 8, ' ');
  for (StoredTensor& tensor : tensors) {
    tensor.begin += text.size() + 8;
    tensor.end += text.size() + 8;
  }
  std::string length;
  for (int shift = 0; shift < 64; shift += 8)
    length += static_cast<char>((text.size() >> shift) & 0xff);
  return length + text;
}

}  // namespace

void BlockChecksums::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t part =
        std::min<std::uint64_t>(bytes.size(), kChecksumBlock - bytes_ % kChecksumBlock);
    current_ = crc32c(bytes.first(part), current_);
    bytes_ += part;
    bytes = bytes.subspan(part);
    if (bytes_ % kChecksumBlock == 0) {
      full_.push_back(current_);
      current_ = 0;
    }
  }
}

std::vector<std::uint32_t> BlockChecksums::blocks() const {
  std::vector<std::uint32_t> all = full_;
  if (bytes_ % kChecksumBlock != 0) all.push_back(current_);
  return all;
}

std::uint32_t BlockChecksums::whole() const {
  std::uint32_t crc = 0;
  for (const std::uint32_t block : full_) crc = combine_crc32c(crc, block, kChecksumBlock);
  return combine_crc32c(crc, current_, bytes_ % kChecksumBlock);
}

SafetensorsWriter::SafetensorsWriter(FileSystem& files, const std::string& path,
                                     std::vector<TensorSpec> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(files, path) {
  std::sort(tensors.begin(), tensors.end(), canonical_before);
  std::set<std::string> names;
  for (TensorSpec& tensor : tensors) {
    TRIB_CHECK(names.insert(tensor.name).second,
               .what = "safetensors: a tensor would be written twice",
               .where = str(path, ", tensor ", escaped(tensor.name)));
    tensors_.push_back({std::move(tensor), 0, 0});
  }
  const std::string header = compose_header(tensors_, metadata);
  data_start_ = header.size();
  append(std::as_bytes(std::span(header)));
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  // Small steps: each is still in the cache when it is written after its checksum.
  constexpr std::size_t kStep = std::size_t{1} << 20;
  while (!bytes.empty()) {
    const auto step = bytes.first(std::min(bytes.size(), kStep));
    checksums_.add(step);
    file_.append(step);
    bytes = bytes.subspan(step.size());
  }
}

WrittenFile SafetensorsWriter::finish() {
  const std::uint64_t expected = tensors_.empty() ? data_start_ : tensors_.back().end;
  TRIB_CHECK(file_.bytes() == expected,
             .what = "safetensors: written bytes do not match the header", .where = file_.path(),
             .found = str(file_.bytes()), .expected = str(expected));
  file_.sync();
  return {.bytes = file_.bytes(),
          .data_start = data_start_,
          .crc32c = checksums_.whole(),
          .block_crc32c = checksums_.blocks(),
          .tensors = std::move(tensors_)};
}

WrittenFile write_safetensors(FileSystem& files, const std::string& path,
                              std::span<const TensorBytes> tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::map<std::string_view, std::span<const std::byte>> data;
  for (const TensorBytes& tensor : tensors) {
    TRIB_CHECK(tensor.data.size() == tensor.bytes(),
               .what = "safetensors: bytes of a tensor do not match its shape",
               .where = str(path, ", tensor ", escaped(tensor.name)),
               .found = str(tensor.data.size()), .expected = str(tensor.bytes()));
    data[tensor.name] = tensor.data;
  }
  SafetensorsWriter writer(files, path, {tensors.begin(), tensors.end()}, metadata);
  for (const StoredTensor& tensor : writer.tensors()) writer.append(data.at(tensor.name));
  return writer.finish();
}

}  // namespace tributary
