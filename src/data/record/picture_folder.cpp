#include "data/record/picture_folder.h"

#define XXH_INLINE_ALL
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <set>
#include <xxhash.h>

#include "core/error.h"
#include "core/file/given_file.h"
#include "data/record/byte_file.h"
#include "data/record/csv_file.h"
#include "data/record/json_file.h"
#include "data/record/stored_file.h"
#include "data/record/stored_record.h"

namespace tributary::data {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 6> kPictures{".jpg",  ".jpeg", ".png",
                                                    ".webp", ".gif",  ".bmp"};
constexpr std::array<std::string_view, 6> kSplits{"train", "test",  "validation",
                                                  "val",   "valid", "dev"};

bool has_pictures(const std::string& path) {
  std::error_code failure;
  for (auto at = fs::recursive_directory_iterator(path, failure);
       !failure && at != fs::recursive_directory_iterator(); at.increment(failure))
    if (is_picture_name(at->path().string())) return true;
  return false;
}

[[noreturn]] void refuse_layout(const std::string& path, const std::string& found) {
  TRIB_RAISE(Fault::kInput, .what = "data: directory of pictures without classes or texts",
             .where = shown_path(path), .found = found,
             .expected =
                 "metadata.jsonl or metadata.csv with `file_name` and `text`, or a "
                 "directory of pictures for each class");
}

}  // namespace

bool is_picture_name(std::string_view path) {
  std::string extension = fs::path(path).extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::find(kPictures, extension) != kPictures.end();
}

ClassFolder::ClassFolder(std::string path) : path_(std::move(path)) {
  std::set<std::string> found;
  std::error_code failure;
  for (auto at = fs::recursive_directory_iterator(path_, failure);
       !failure && at != fs::recursive_directory_iterator(); at.increment(failure))
    if (is_picture_name(at->path().string()))
      found.insert(fs::relative(at->path(), path_).string());
  TRIB_REQUIRE(!failure, .what = "data: directory cannot be read", .where = shown_path(path_),
               .found = failure.message());
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  for (const std::string& picture : found) {
    const std::size_t slash = picture.find('/');
    if (slash == std::string::npos) refuse_layout(path_, escaped(picture) + " is in no class");
    const std::string first = picture.substr(0, slash);
    if (std::ranges::find(kSplits, first) != kSplits.end())
      TRIB_RAISE(Fault::kInput, .what = "data: directory holds several parts of a data set",
                 .where = shown_path(path_), .found = first, .expected = "one of them",
                 .fix = str("set `path` to ", path_, "/", first));
    if (picture.find('/', slash + 1) != std::string::npos)
      refuse_layout(path_, escaped(picture) + " lies in more than one directory");
    const auto bytes = static_cast<std::int64_t>(fs::file_size(fs::path(path_) / picture));
    bytes_ += bytes;
    XXH3_64bits_update(&hash, picture.c_str(), picture.size() + 1);
    XXH3_64bits_update(&hash, &bytes, sizeof bytes);
    pictures_.push_back(picture);
  }
  TRIB_REQUIRE(!pictures_.empty(), .what = "data: file holds no record", .where = shown_path(path_),
               .expected = "pictures");
  digest_ = digits_of(XXH3_64bits_digest(&hash));
}

Result<StoredRecord> ClassFolder::read(std::int64_t record) const {
  const std::string& picture = pictures_[static_cast<std::size_t>(record)];
  return StoredRecord{
      .json = {{"image", picture}, {"label", picture.substr(0, picture.find('/'))}}};
}

std::string ClassFolder::key(std::int64_t record) const {
  return str(path_, "/", pictures_[static_cast<std::size_t>(record)]);
}
std::string ClassFolder::beginning_of(std::int64_t record) const {
  return pictures_[static_cast<std::size_t>(record)];
}

std::unique_ptr<RecordFile> open_picture_folder(const std::string& path) {
  std::error_code failure;
  const fs::path folder(path);
  if (fs::exists(folder / "metadata.jsonl", failure))
    return std::make_unique<JsonFile>(open_bytes((folder / "metadata.jsonl").string()));
  if (fs::exists(folder / "metadata.csv", failure))
    return std::make_unique<CsvFile>(open_bytes((folder / "metadata.csv").string()));
  if (!has_pictures(path)) return nullptr;
  return std::make_unique<ClassFolder>(path);
}

}  // namespace tributary::data
