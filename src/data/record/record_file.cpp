#include "data/record/record_file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file/given_file.h"
#include "data/record/byte_file.h"
#include "data/record/csv_file.h"
#include "data/record/json_file.h"
#include "data/record/many_files.h"
#include "data/record/other_files.h"
#include "data/record/picture_folder.h"
#include "data/record/table_file.h"
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
const std::array<FileKind, 6> kFileKinds{
    FileKind{"JSON", {".jsonl", ".jsonl.gz", ".json", ".json.gz"}},
    FileKind{"text", {".txt", ".txt.gz"}},
    FileKind{"CSV", {".csv", ".csv.gz"}},
    FileKind{"tar", {".tar", ".tar.gz", ".tgz"}},
    FileKind{"Parquet", {".parquet"}},
    FileKind{"Arrow", {".arrow"}},
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

/// Opens a directory of `Dataset.save_to_disk`: the Arrow files that its state lists. Null when it
/// is none.
std::unique_ptr<RecordFile> open_saved(const std::string& path) {
  std::error_code failure;
  TRIB_REQUIRE(!fs::exists(fs::path(path) / "dataset_dict.json", failure),
               .what = "data: directory holds several parts of a data set",
               .where = shown_path(path), .found = "dataset_dict.json", .expected = "one of them",
               .fix = str("set `path` to ", path, "/train, or another directory in it"));
  const fs::path state = fs::path(path) / "state.json";
  if (!fs::exists(state, failure)) return nullptr;
  const std::string where = state.string();
  const Json json = read_given_json(where, {.what = "data: state of a data set cannot be read"});
  std::vector<std::string> paths;
  try {
    for (const Json& file : json.at("_data_files"))
      paths.push_back((fs::path(path) / file.at("filename").get<std::string>()).string());
  } catch (const Json::exception& wrong) {
    TRIB_RAISE(Fault::kInput, .what = "data: state of a data set is not understood", .where = where,
               .found = wrong.what(), .expected = "the list _data_files, as `datasets` writes it");
  }
  TRIB_REQUIRE(!paths.empty(), .what = "data: file holds no record", .where = where,
               .found = "an empty list _data_files", .expected = "files of Arrow");
  return open_all(path, paths);
}

std::unique_ptr<RecordFile> open_directory(const std::string& path) {
  if (auto saved = open_saved(path)) return saved;
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
  if (is_parquet(beginning)) return open_parquet(path);
  if (is_arrow(beginning)) return open_arrow(path);
  if (is_tar(beginning)) return std::make_unique<TarFile>(std::move(bytes));
  if (const auto other = recognise_file(path, beginning))
    TRIB_RAISE(Fault::kInput, .what = "data: file holds no records", .where = shown_path(path),
               .found = other->what, .expected = "one JSON object a line, or a list of them",
               .fix = other->fix);
  if (path.ends_with(".csv") || path.ends_with(".csv.gz"))
    return std::make_unique<CsvFile>(std::move(bytes));
  const bool is_text = path.ends_with(".txt") || path.ends_with(".txt.gz");
  return std::make_unique<JsonFile>(std::move(bytes),
                                    is_text ? JsonFile::Content::kText : JsonFile::Content::kJson);
}

}  // namespace tributary::data
