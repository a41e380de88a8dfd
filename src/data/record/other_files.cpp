#include "data/record/other_files.h"

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

}  // namespace

bool is_tar(std::string_view beginning) {
  constexpr std::size_t kPlace = 257;
  return beginning.size() > kPlace && beginning.substr(kPlace).starts_with("ustar");
}

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
  if (beginning.starts_with("\x28\xb5\x2f\xfd"sv))
    return OtherFile{"compressed by zstd", str("zstd -d ", path, " -o ", without_extension(path))};
  if (beginning.starts_with("\xfd\x37zXZ"sv))
    return OtherFile{"compressed by xz", str("unxz -k ", path)};
  if (beginning.starts_with("PK\x03\x04"sv)) return OtherFile{"a zip archive", str("unzip ", path)};
  return std::nullopt;
}

std::optional<OtherFile> recognise_directory(const std::string& path) {
  std::error_code failure;
  const fs::path folder(path);
  const std::string name = (folder.has_filename() ? folder : folder.parent_path()).string();
  const auto from_disk = [&](const std::string& split) {
    return write_lines("load_from_disk", str("load_from_disk('", split, "')"), name + ".jsonl");
  };
  if (fs::exists(folder / "dataset_dict.json", failure))
    return OtherFile{"a directory of `datasets` with several splits",
                     "take one of them: " + from_disk(name + "/train")};
  if (fs::exists(folder / "dataset_info.json", failure) ||
      fs::exists(folder / "state.json", failure))
    return OtherFile{"a directory of `datasets`", from_disk(name)};
  return std::nullopt;
}

}  // namespace tributary::data
