#include "core/machine/own_library.h"

#include <dlfcn.h>
#include <filesystem>

namespace tributary {

Result<void*> find_in_own_library(const std::string& library, const std::string& function) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string beside = self.parent_path() / library;
  const std::string& path = std::filesystem::exists(beside) ? beside : library;
  void* loaded = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) return Refusal{"library", dlerror()};
  void* found = dlsym(loaded, function.c_str());
  if (found == nullptr) return Refusal{"library", "it lacks its table"};
  return found;
}

}  // namespace tributary
