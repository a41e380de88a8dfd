#include "train/checkpoint/commit.h"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"
#include "train/checkpoint/retention.h"

namespace tributary::train {
namespace {

constexpr std::array<const char*, 3> kFolders{"model", "optim", "extra"};

/// `3.25 GiB`, `12.00 MiB`, `0.50 KiB`
std::string describe_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 3> kUnits{"KiB", "MiB", "GiB"};
  double count = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; count >= 1024 && unit + 1 < kUnits.size(); ++unit) count /= 1024;
  std::array<char, 40> text{};
  (void)std::snprintf(text.data(), text.size(), "%.2f %s", count, kUnits.at(unit));
  return text.data();
}

/// Chunks by the name that they have in a file.
using ByStoredName = std::map<std::string, const ChunkToSave*>;

ByStoredName name_chunks(std::span<const ChunkToSave> chunks) {
  ByStoredName named;
  for (const ChunkToSave& chunk : chunks) {
    std::string name = chunk.name;
    for (int next = 1; named.contains(name); ++next) name = str(chunk.name, "#", next);
    named[name] = &chunk;
  }
  return named;
}

/// The metadata by which PyTorch's HuggingFaceStorageReader puts shards together.
std::map<std::string, std::string> shard_metadata(const ByStoredName& chunks) {
  Json offsets = Json::object();
  Json shapes = Json::object();
  for (const auto& [name, chunk] : chunks) {
    offsets[name] = {{"saved_offsets", chunk->box.offsets}};
    shapes[name] = chunk->shape;
  }
  return {{"format", "pt"},
          {"DCP_VERSION", "1.0"},
          {"DCP_SHARDING_INFO", offsets.dump()},
          {"tributary_global_shapes", shapes.dump()}};
}

/// Joins the reports into one list of files and one table of tensors.
Manifest join_reports(const SaveKey& key, std::span<const FileReport> reports,
                      const CommitFacts& facts, Scope scope) {
  Manifest manifest{.job = key.job,
                    .incarnation = key.incarnation,
                    .step = key.step,
                    .world = facts.world,
                    .config_sha256 = facts.config_sha256,
                    .model_sha256 = {},
                    .score = facts.score,
                    .files = {},
                    .tensors = {}};
  for (const FileReport& report : reports) {
    const auto file = static_cast<std::int64_t>(manifest.files.size());
    manifest.files.push_back(report.file);
    for (const auto& [name, part] : report.tensors) {
      const auto [entry, fresh] =
          manifest.tensors.try_emplace(name, ManifestTensor{part.dtype, part.shape, {}});
      ManifestTensor& tensor = entry->second;
      TRIB_CHECK(tensor.dtype == part.dtype && tensor.shape == part.shape,
                 .what = "checkpoint: ranks disagree about a tensor", .where = name);
      for (ManifestChunk chunk : part.chunks) {
        chunk.file = file;
        tensor.chunks.push_back(std::move(chunk));
      }
    }
  }
  for (const auto& [name, tensor] : manifest.tensors) check_coverage(name, tensor, "save", scope);
  manifest.model_sha256 = digest_model(manifest.tensors);
  return manifest;
}

}  // namespace

std::string SaveKey::final_path() const { return str(root, "/", step_name(step)); }

std::string SaveKey::temporary_path() const {
  return str(final_path(), ".tmp-", job, "-", incarnation);
}

std::string shard_file_name(std::int64_t rank, std::int64_t world) {
  std::array<char, 96> name{};
  (void)std::snprintf(name.data(), name.size(), "shard-%05ld-model-%05ld-of-%05ld.safetensors",
                      rank + 1, rank + 1, world);
  return name.data();
}

void prepare_save(FileSystem& files, const SaveKey& key, std::uint64_t needed_bytes) {
  const std::uint64_t free = free_bytes(files, key.root);
  const std::uint64_t wanted = needed_bytes + needed_bytes / 10;
  if (free < wanted)
    TRIB_RAISE(Fault::kResource, .what = "checkpoint: not enough space for a save",
               .where = key.root, .found = describe_bytes(free) + " free",
               .expected = describe_bytes(wanted), .fix = "free disk space");
  const std::string target = key.temporary_path();
  if (exists(files, target)) remove_tree(files, target);
  make_directories(files, target);
  for (const char* folder : kFolders) make_directories(files, target + "/" + folder);
  sync_directory(files, key.root);
}

FileReport write_shard(FileSystem& files, const SaveKey& key, const std::string& folder,
                       const std::string& name, std::span<const ChunkToSave> chunks) {
  const ByStoredName by_name = name_chunks(chunks);
  std::vector<TensorSpec> tensors;
  for (const auto& [stored, chunk] : by_name)
    tensors.push_back({stored, chunk->dtype, chunk->box.lengths});
  const std::string relative = folder + "/" + name;
  SafetensorsWriter writer(files, key.temporary_path() + "/" + relative, std::move(tensors),
                           shard_metadata(by_name));
  for (const StoredTensor& tensor : writer.tensors()) {
    std::uint64_t bytes = 0;
    by_name.at(tensor.name)->read([&](std::span<const std::byte> piece) {
      writer.append(piece);
      bytes += piece.size();
    });
    TRIB_CHECK(bytes == tensor.bytes(),
               .what = "checkpoint: bytes of a tensor do not match its shape",
               .where = str(relative, ", tensor ", escaped(tensor.name)), .found = str(bytes),
               .expected = str(tensor.bytes()));
  }
  WrittenFile written = writer.finish();
  FileReport report{.file = {.name = relative,
                             .bytes = written.bytes,
                             .data_start = written.data_start,
                             .crc32c = written.crc32c,
                             .block_crc32c = std::move(written.block_crc32c)},
                    .tensors = {}};
  for (const StoredTensor& stored : written.tensors) {
    const ChunkToSave& chunk = *by_name.at(stored.name);
    ManifestTensor& tensor = report.tensors[folder + "/" + chunk.name];
    tensor.dtype = chunk.dtype;
    tensor.shape = chunk.shape;
    tensor.chunks.push_back({0, stored.begin, stored.end, chunk.box});
  }
  return report;
}

FileReport write_extra(FileSystem& files, const SaveKey& key, const std::string& name,
                       std::string_view text) {
  const std::string relative = "extra/" + name;
  OutputFile file(files, key.temporary_path() + "/" + relative);
  BlockChecksums checksums;
  checksums.add(std::as_bytes(std::span(text)));
  file.append(text);
  file.sync();
  return {.file = {.name = relative,
                   .bytes = text.size(),
                   .data_start = 0,
                   .crc32c = checksums.whole(),
                   .block_crc32c = checksums.blocks()},
          .tensors = {}};
}

std::string write_reports(const SaveKey& key, std::span<const FileReport> reports) {
  return write_manifest(join_reports(key, reports, {}, Scope::kRank));
}

std::vector<FileReport> parse_reports(const std::string& text, const std::string& where) {
  Manifest manifest = parse_manifest(text, where, Scope::kRank);
  std::vector<FileReport> reports;
  for (ManifestFile& file : manifest.files) reports.push_back({std::move(file), {}});
  for (const auto& [name, tensor] : manifest.tensors) {
    for (ManifestChunk chunk : tensor.chunks) {
      FileReport& report = reports[static_cast<std::size_t>(chunk.file)];
      chunk.file = 0;
      report.tensors.try_emplace(name, ManifestTensor{tensor.dtype, tensor.shape, {}})
          .first->second.chunks.push_back(std::move(chunk));
    }
  }
  return reports;
}

void commit_save(FileSystem& files, const SaveKey& key, std::span<const FileReport> reports,
                 const CommitFacts& facts) {
  const Manifest manifest = join_reports(key, reports, facts, Scope::kCheckpoint);
  const std::string target = key.temporary_path();
  for (const ManifestFile& file : manifest.files) {
    const FileFacts found = stat_path(files, target + "/" + file.name);
    if (found.bytes != file.bytes)
      TRIB_RAISE(Fault::kResource, .what = "checkpoint: a written file has another size",
                 .where = target + "/" + file.name, .found = str(found.bytes, " bytes"),
                 .expected = str(file.bytes, " bytes"));
  }
  replace_file(files, target + "/" + kManifestName, write_manifest(manifest));
  for (const char* folder : kFolders) sync_directory(files, target + "/" + folder);
  sync_directory(files, target);
  rename_path(files, target, key.final_path());
  sync_directory(files, key.root);
  replace_file(files, key.root + "/LATEST", step_name(key.step) + "\n");
  sync_directory(files, key.root);
}

}  // namespace tributary::train
