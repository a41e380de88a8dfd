#include "train/checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "core/error.h"
#include "core/file/crc32c.h"
#include "train/checkpoint/retention.h"

namespace tributary::train {
namespace {

/// Runs a read; an error of the files becomes a refusal of the checkpoint.
template <class Read>
auto refusing(const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.fault() != Fault::kInput) throw;
    throw error.with_exit(ExitCode::kCheckpointRefused);
  }
}

}  // namespace

CheckpointReader::CheckpointReader(std::string directory, Verify verify, FileSystem& files)
    : directory_(plain_directory(directory)), verify_(verify), files_(files) {
  refusing([&] { open_all(); });
  if (verify_ == Verify::kFull) verify_all();
}

void CheckpointReader::open_all() {
  TRIB_REQUIRE(exists(files_, directory_), .what = "checkpoint: no such directory",
               .where = directory_);
  const std::string path = directory_ + "/" + kManifestName;
  TRIB_REQUIRE(exists(files_, path), .what = "checkpoint: no manifest", .where = path,
               .fix = name_previous());
  require_plain_file(path);
  manifest_ = parse_manifest(read_text_file(files_, path, kMaxManifestBytes), path);
  const std::string name = std::filesystem::path(directory_).filename();
  TRIB_REQUIRE(step_of(name).value_or(manifest_.step) == manifest_.step,
               .what = "checkpoint: directory and manifest disagree about the step",
               .where = directory_, .found = str("manifest of step ", manifest_.step));
  open_.reserve(manifest_.files.size());
  for (const ManifestFile& file : manifest_.files) {
    const std::string full = directory_ + "/" + file.name;
    TRIB_REQUIRE(exists(files_, full), .what = "checkpoint: file is missing", .where = full,
                 .fix = name_previous());
    require_plain_file(full);
    open_.emplace_back(files_, full);
    TRIB_REQUIRE(
        open_.back().bytes() == file.bytes, .what = "checkpoint: file has another size",
        .where = str(full, ", tensor ",
                     name_tensors(open_.size() - 1, open_.back().bytes() / kChecksumBlock)),
        .found = str(open_.back().bytes(), " bytes"), .expected = str(file.bytes, " bytes"),
        .fix = name_previous());
  }
  refuse_strangers();
}

/// A link, a pipe or a directory may be something else when it is read again.
void CheckpointReader::require_plain_file(const std::string& path) const {
  constexpr std::array<const char*, 4> kKinds{"a file", "a directory", "a symbolic link",
                                              "a pipe, socket or device"};
  const auto kind = static_cast<std::size_t>(stat_path(files_, path).kind);
  TRIB_REQUIRE(kind == static_cast<std::size_t>(FileKind::kFile),
               .what = "checkpoint: not a regular file", .where = path, .found = kKinds.at(kind),
               .expected = "a file, no link", .fix = name_previous());
}

void CheckpointReader::refuse_strangers() const {
  std::set<std::string> known;
  for (const ManifestFile& file : manifest_.files) known.insert(file.name);
  for (const char* folder : {"model", "optim", "extra"})
    for (const std::string& name : list_directory(files_, directory_ + "/" + folder))
      TRIB_REQUIRE(known.contains(str(folder, "/", name)),
                   .what = "checkpoint: file is not in the manifest",
                   .where = str(directory_, "/", folder, "/", name),
                   .fix = "remove what was added to the checkpoint");
}

void CheckpointReader::read(std::span<const ReadRequest> requests) {
  std::vector<std::vector<CopyRun>> runs(manifest_.files.size());
  for (const ReadRequest& request : requests) {
    const auto found = manifest_.tensors.find(request.tensor);
    TRIB_CHECK(found != manifest_.tensors.end(), .what = "checkpoint: no such tensor",
               .where = directory_, .found = request.tensor);
    const ManifestTensor& tensor = found->second;
    const std::uint64_t width = element_bytes(tensor.dtype);
    TRIB_CHECK(lies_in(request.box, tensor.shape) &&
                   request.target.size() ==
                       static_cast<std::uint64_t>(*volume(request.box.lengths)) * width,
               .what = "checkpoint: request does not fit its tensor", .where = request.tensor,
               .found = str(request.target.size(), " bytes"));
    for (const ManifestChunk& chunk : tensor.chunks)
      for (const SharedRun& run : shared_runs(chunk.box, request.box))
        runs[static_cast<std::size_t>(chunk.file)].push_back(
            {chunk.begin + static_cast<std::uint64_t>(run.from) * width,
             static_cast<std::uint64_t>(run.elements) * width,
             request.target.data() + static_cast<std::uint64_t>(run.to) * width});
  }
  for (std::size_t file = 0; file < runs.size(); ++file) copy_runs(file, std::move(runs[file]));
}

void CheckpointReader::copy_runs(std::size_t file, std::vector<CopyRun> runs) {
  std::sort(runs.begin(), runs.end(),
            [](const CopyRun& a, const CopyRun& b) { return a.begin < b.begin; });
  std::vector<std::byte> bytes;
  std::uint64_t held = UINT64_MAX;  // block that `bytes` holds
  for (const CopyRun& run : runs) {
    for (std::uint64_t done = 0; done < run.bytes;) {
      const std::uint64_t at = run.begin + done;
      if (at / kChecksumBlock != held) {
        held = at / kChecksumBlock;
        read_block(file, held, bytes);
      }
      const std::uint64_t inside = at % kChecksumBlock;
      const std::uint64_t part = std::min(run.bytes - done, bytes.size() - inside);
      std::memcpy(run.target + done, bytes.data() + inside, part);
      done += part;
    }
  }
}

void CheckpointReader::read_block(std::size_t file, std::uint64_t block,
                                  std::vector<std::byte>& bytes) {
  const ManifestFile& facts = manifest_.files[file];
  const std::uint64_t begin = block * kChecksumBlock;
  bytes.resize(std::min(kChecksumBlock, facts.bytes - begin));
  refusing([&] { open_[file].read_at(begin, bytes); });
  bytes_read_ += bytes.size();
  if (verify_ == Verify::kSizes) return;
  const std::uint32_t crc = crc32c(bytes);
  TRIB_REQUIRE(crc == facts.block_crc32c[block], .what = "checkpoint: block checksum differs",
               .where = str(directory_, "/", facts.name, " block ", block, " (bytes ", begin, "-",
                            begin + bytes.size(), "), tensor ", name_tensors(file, block)),
               .found = str("crc32c ", crc_text(crc)),
               .expected = crc_text(facts.block_crc32c[block]), .fix = name_previous(),
               .exit = ExitCode::kCheckpointRefused);
}

std::string CheckpointReader::read_extra(const std::string& name) {
  for (std::size_t file = 0; file < manifest_.files.size(); ++file) {
    if (manifest_.files[file].name != "extra/" + name) continue;
    std::string text(manifest_.files[file].bytes, '\0');
    copy_runs(file, {{0, text.size(), std::as_writable_bytes(std::span(text)).data()}});
    return text;
  }
  TRIB_RAISE(Fault::kInput, .what = "checkpoint: file is not in the manifest",
             .where = directory_ + "/extra/" + name, .exit = ExitCode::kCheckpointRefused);
}

void CheckpointReader::verify_all() {
  std::vector<std::byte> bytes;
  for (std::size_t file = 0; file < manifest_.files.size(); ++file)
    for (std::uint64_t block = 0; block * kChecksumBlock < manifest_.files[file].bytes; ++block)
      read_block(file, block, bytes);
}

/// The tensors that a block holds, for a message: the first, and how many more.
std::string CheckpointReader::name_tensors(std::size_t file, std::uint64_t block) const {
  const std::uint64_t begin = block * kChecksumBlock;
  std::string first;
  std::size_t more = 0;
  for (const auto& [name, tensor] : manifest_.tensors)
    for (const ManifestChunk& chunk : tensor.chunks)
      if (chunk.file == static_cast<std::int64_t>(file) && chunk.begin < begin + kChecksumBlock &&
          chunk.end > begin) {
        if (first.empty())
          first = name;
        else
          ++more;
      }
  if (first.empty()) return "none";
  return more == 0 ? first : str(first, " and ", more, " more");
}

std::string CheckpointReader::name_previous() const {
  const std::filesystem::path path(directory_);
  const std::optional<std::int64_t> own = step_of(path.filename());
  const std::string root = path.has_parent_path() ? path.parent_path().string() : std::string(".");
  for (const std::int64_t step : committed_steps(files_, root))
    if (own && step < *own)
      return str("train --resume auto --fallback=previous would use ", root, "/", step_name(step));
  return "there is no previous checkpoint; take a copy";
}

}  // namespace tributary::train
