#include "core/file/shown_path.h"

#include <filesystem>
#include <system_error>

#include "core/text.h"

namespace tributary {

std::string shown_path(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::path(path).is_absolute()) return path;
  return str(path, " (from ", std::filesystem::current_path(ignored).string(), ")");
}

}  // namespace tributary
