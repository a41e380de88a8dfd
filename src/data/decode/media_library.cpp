#include "data/decode/media_library.h"

#include <dlfcn.h>
#include <filesystem>
#include <string>

#include "core/text.h"

namespace tributary::data {
namespace {

/// The library beside the program, and why there is none.
struct Loaded {
  const MediaLibrary* library = nullptr;
  std::string why;
};

Loaded load() {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string path = self.parent_path() / "libtributary_video.so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {nullptr, dlerror()};
  using Give = const MediaLibrary* (*)();
  const auto give = reinterpret_cast<Give>(dlsym(library, "tributary_video"));
  return {give == nullptr ? nullptr : give(), give == nullptr ? "it lacks its table" : ""};
}

}  // namespace

Result<const MediaLibrary*> load_media_library() {
  static const Loaded loaded = load();
  if (loaded.library != nullptr) return loaded.library;
  return Refusal{
      "video_reader",
      str("this build reads no video files, nor sound in their containers: ", loaded.why,
          "; install libavformat-dev, libavcodec-dev and libswscale-dev, and build again")};
}

}  // namespace tributary::data
