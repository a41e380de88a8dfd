#include "data/record/other_files.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "core/text.h"

namespace tributary::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPage = "; docs/formats/data.md says how pictures come along";

/// The command that writes a data set of the package `datasets` as JSON lines.
std::string write_lines(const std::string& name, const std::string& call,
                        const std::string& lines) {
  return str("python3 -c \"from datasets import ", name, "; ", call, ".to_json('", lines, "')\"",
             kPage);
}

std::string without_extension(const std::string& path) {
  return fs::path(path).replace_extension().string();
}

/// A tar header has this word at its 257th byte.
bool is_tar(std::string_view beginning) {
  constexpr std::size_t kPlace = 257;
  return beginning.size() > kPlace && beginning.substr(kPlace).starts_with("ustar");
}

bool is_picture(const fs::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::array<std::string_view, 5> kKnown{".jpg", ".jpeg", ".png", ".webp", ".gif"};
  return std::find(kKnown.begin(), kKnown.end(), extension) != kKnown.end();
}

/// Whether the directory, or one directly below it, has pictures; looks at a few files only.
bool has_pictures(const fs::path& path) {
  constexpr int kMaxLookedAt = 1000;
  std::error_code failure;
  int looked_at = 0;
  for (auto at = fs::recursive_directory_iterator(path, failure);
       !failure && at != fs::recursive_directory_iterator() && looked_at < kMaxLookedAt;
       at.increment(failure), ++looked_at) {
    if (at.depth() > 0) at.disable_recursion_pending();
    if (is_picture(at->path())) return true;
  }
  return false;
}

}  // namespace

std::optional<OtherFile> recognise_file(const std::string& path, std::string_view beginning) {
  using namespace std::string_view_literals;
  const std::string lines = without_extension(path) + ".jsonl";
  if (beginning.starts_with("PAR1"))
    return OtherFile{
        "Parquet",
        write_lines("load_dataset",
                    str("load_dataset('parquet', data_files='", path, "', split='train')"), lines)};
  if (beginning.starts_with("ARROW1"))
    return OtherFile{"an Arrow file",
                     write_lines("Dataset", str("Dataset.from_file('", path, "')"), lines)};
  if (beginning.starts_with("\x1f\x8b"sv))
    return OtherFile{"compressed by gzip",
                     str("gunzip -c ", path, " > ",
                         path.ends_with(".gz") ? without_extension(path) : path + ".jsonl")};
  if (beginning.starts_with("\x28\xb5\x2f\xfd"sv))
    return OtherFile{"compressed by zstd", str("zstd -d ", path, " -o ", without_extension(path))};
  if (beginning.starts_with("\xfd\x37zXZ"sv))
    return OtherFile{"compressed by xz", str("unxz -k ", path)};
  if (beginning.starts_with("PK\x03\x04"sv)) return OtherFile{"a zip archive", str("unzip ", path)};
  if (is_tar(beginning))
    return OtherFile{"a tar archive (WebDataset)",
                     str("mkdir -p ", without_extension(path), " && tar -xf ", path, " -C ",
                         without_extension(path),
                         ", and write a line of JSON for each sample: docs/formats/data.md")};
  return std::nullopt;
}

OtherFile recognise_directory(const std::string& path) {
  std::error_code failure;
  const fs::path folder(path);
  const std::string name = (folder.has_filename() ? folder : folder.parent_path()).string();
  const auto from_disk = [&](const std::string& split) {
    return write_lines("load_from_disk", str("load_from_disk('", split, "')"), name + ".jsonl");
  };
  if (fs::exists(folder / "dataset_dict.json", failure))
    return {"a directory of `datasets` with several splits",
            "take one of them: " + from_disk(name + "/train")};
  if (fs::exists(folder / "dataset_info.json", failure) ||
      fs::exists(folder / "state.json", failure))
    return {"a directory of `datasets`", from_disk(name)};
  if (has_pictures(folder))
    return {"a directory of pictures",
            "write a line of JSON for each picture, as docs/formats/data.md shows for an "
            "imagefolder, and set `images` of the source to this directory"};
  return {"a directory", "name a file of JSON lines"};
}

}  // namespace tributary::data
