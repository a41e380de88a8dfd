#include "data/record/other_files.h"

#include <filesystem>

#include "core/text.h"

namespace tributary::data {
namespace {

std::string without_extension(const std::string& path) {
  return std::filesystem::path(path).replace_extension().string();
}

}  // namespace

bool is_tar(std::string_view beginning) {
  constexpr std::size_t kPlace = 257;
  return beginning.size() > kPlace && beginning.substr(kPlace).starts_with("ustar");
}

bool is_parquet(std::string_view beginning) { return beginning.starts_with("PAR1"); }

bool is_arrow(std::string_view beginning) {
  return beginning.starts_with("ARROW1") || beginning.starts_with("\xff\xff\xff\xff");
}

std::optional<OtherFile> recognise_file(const std::string& path, std::string_view beginning) {
  using namespace std::string_view_literals;
  if (beginning.starts_with("\x28\xb5\x2f\xfd"sv))
    return OtherFile{"compressed by zstd", str("zstd -d ", path, " -o ", without_extension(path))};
  if (beginning.starts_with("\xfd\x37zXZ"sv))
    return OtherFile{"compressed by xz", str("unxz -k ", path)};
  if (beginning.starts_with("\xff\xfe"sv) || beginning.starts_with("\xfe\xff"sv))
    return OtherFile{"text in UTF-16",
                     str("iconv -f UTF-16 -t UTF-8 ", path, " -o ", without_extension(path),
                         ".utf8", std::filesystem::path(path).extension().string())};
  if (beginning.starts_with("PK\x03\x04"sv)) return OtherFile{"a zip archive", str("unzip ", path)};
  return std::nullopt;
}

}  // namespace tributary::data
