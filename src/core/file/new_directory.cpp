#include "core/file/new_directory.h"

#include <filesystem>

#include "core/error.h"
#include "core/log.h"

namespace tributary {
namespace {

void discard(FileSystem& files, const std::string& path) {
  try {
    if (exists(files, path)) remove_tree(files, path);
  } catch (const Error& error) {
    log_warning(str("export: an unfinished directory stays behind: ", error.what()));
  }
}

}  // namespace

void write_text_file(FileSystem& files, const std::string& path, std::string_view text) {
  OutputFile out(files, path);
  out.append(text);
  out.sync();
}

void write_new_directory(FileSystem& files, const std::string& directory,
                         const std::function<void(const std::string& part)>& fill) {
  const std::string target = plain_directory(directory);
  TRIB_REQUIRE(!exists(files, target), .what = "export: the directory exists already",
               .where = target, .fix = "remove it or choose another one");
  const std::filesystem::path above = std::filesystem::path(target).parent_path();
  const std::string parent = above.empty() ? std::string(".") : above.string();
  make_directories(files, parent);
  const std::string part = target + ".tmp-export";
  discard(files, part);
  try {
    make_directories(files, part);
    fill(part);
    sync_directory(files, part);
    rename_path(files, part, target);
    sync_directory(files, parent);
  } catch (...) {
    discard(files, part);
    throw;
  }
}

}  // namespace tributary
