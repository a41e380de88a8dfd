#include "core/file/digest_file.h"

#include "core/file/file_system.h"
#include "core/sha256.h"

namespace tributary {

std::string digest_file(const std::string& path, std::uint64_t max_bytes) {
  FileSystem& files = real_file_system();
  return exists(files, path) ? sha256(read_text_file(files, path, max_bytes)) : "none";
}

}  // namespace tributary
