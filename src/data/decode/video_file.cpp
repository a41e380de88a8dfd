#include "data/decode/video_file.h"

#include <dlfcn.h>
#include <filesystem>
#include <string>

#include "core/text.h"

namespace tributary::data {
namespace {

/// The library beside the program, and why there is none.
struct Loaded {
  const VideoCodec* codec = nullptr;
  std::string why;
};

Loaded load_library() {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string path = self.parent_path() / "libtributary_video.so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {nullptr, dlerror()};
  using Give = const VideoCodec* (*)();
  const auto give = reinterpret_cast<Give>(dlsym(library, "tributary_video"));
  return {give == nullptr ? nullptr : give(), give == nullptr ? "it lacks its table" : ""};
}

const Loaded& loaded() {
  static const Loaded library = load_library();
  return library;
}

Refusal refuse_to_read() {
  return {"video_reader", str("this build reads no video files: ", loaded().why,
                              "; install libavformat-dev, libavcodec-dev and libswscale-dev, and "
                              "build again")};
}

}  // namespace

Result<VideoHeader> read_video_header(std::span<const std::uint8_t> file,
                                      const PictureLimits& limits) {
  if (loaded().codec == nullptr) return refuse_to_read();
  return loaded().codec->read_header(file, limits);
}

Result<std::vector<Picture>> decode_video(std::span<const std::uint8_t> file,
                                          std::span<const std::int64_t> indices,
                                          const PictureLimits& limits) {
  if (loaded().codec == nullptr) return refuse_to_read();
  return loaded().codec->decode(file, indices, limits);
}

}  // namespace tributary::data
