#include "data/record/record_file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "core/error.h"
#include "core/file/given_file.h"
#include "data/record/byte_file.h"
#include "data/record/json_file.h"
#include "data/record/many_files.h"
#include "data/record/other_files.h"
#include "data/record/picture_folder.h"
#include "data/record/tar_file.h"

namespace tributary::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBeginningBytes = 512;  // a tar archive is known by its 257th byte

/// The kinds of files that are taken from a directory, by the ends of their names.
struct FileKind {
  std::string_view name;
  std::vector<std::string_view> ends;
};
const std::array<FileKind, 2> kFileKinds{
    FileKind{"JSON", {".jsonl", ".jsonl.gz", ".json", ".json.gz"}},
    FileKind{"tar", {".tar", ".tar.gz", ".tgz"}},
};

const FileKind* kind_of(const std::string& path) {
  for (const FileKind& kind : kFileKinds)
    for (const std::string_view end : kind.ends)
      if (path.ends_with(end)) return &kind;
  return nullptr;
}

std::unique_ptr<RecordFile> open_all(const std::string& path,
                                     const std::vector<std::string>& paths) {
  std::vector<std::unique_ptr<RecordFile>> files;
  for (const std::string& each : paths) files.push_back(open_record_file(each));
  if (files.size() == 1) return std::move(files.front());
  return std::make_unique<ManyFiles>(path, std::move(files));
}

/// Opens the shards in a directory: its files of records, which must be of one kind.
std::unique_ptr<RecordFile> open_shards(const std::string& path) {
  std::map<std::string_view, std::vector<std::string>> by_kind;
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, failure))
    if (const FileKind* kind = kind_of(entry.path().string()); kind != nullptr)
      by_kind[kind->name].push_back(entry.path().string());
  if (by_kind.size() == 1) {
    std::vector<std::string>& paths = by_kind.begin()->second;
    std::ranges::sort(paths);
    return open_all(path, paths);
  }
  std::string found;
  for (const auto& [kind, paths] : by_kind)
    found += str(found.empty() ? "" : ", ", paths.size(), " files of ", kind);
  TRIB_RAISE(Fault::kInput, .what = "data: directory of no one kind of records",
             .where = shown_path(path), .found = found.empty() ? "no file of records" : found,
             .expected = "files of one kind, an imagefolder, or a directory of `save_to_disk`",
             .fix = str("name the files by a pattern: ", path, "/*.jsonl"));
}

std::unique_ptr<RecordFile> open_directory(const std::string& path) {
  if (const auto other = recognise_directory(path))
    TRIB_RAISE(Fault::kInput, .what = "data: directory holds no records that are read",
               .where = shown_path(path), .found = other->what, .fix = other->fix);
  if (auto pictures = open_picture_folder(path)) return pictures;
  return open_shards(path);
}

}  // namespace

std::unique_ptr<RecordFile> open_record_file(const std::string& path) {
  std::error_code failure;
  if (fs::is_directory(path, failure)) return open_directory(path);
  if (is_pattern(path) && !fs::exists(path, failure)) return open_all(path, list_paths(path));
  std::unique_ptr<ByteFile> bytes = open_bytes(path);
  const std::string beginning = bytes->beginning(kBeginningBytes);
  if (is_tar(beginning)) return std::make_unique<TarFile>(std::move(bytes));
  if (const auto other = recognise_file(path, beginning))
    TRIB_RAISE(Fault::kInput, .what = "data: file holds no records", .where = shown_path(path),
               .found = other->what, .expected = "one JSON object a line, or a list of them",
               .fix = other->fix);
  return std::make_unique<JsonFile>(std::move(bytes));
}

}  // namespace tributary::data
