#include "data/decode/video_file.h"

#include "data/decode/media_library.h"

namespace tributary::data {

Result<VideoHeader> read_video_header(std::span<const std::uint8_t> file,
                                      const PictureLimits& limits) {
  const Result<const MediaLibrary*> library = load_media_library();
  if (!library) return library.refusal();
  return library.value()->read_video_header(file, limits);
}

Result<std::vector<Picture>> decode_video(std::span<const std::uint8_t> file,
                                          std::span<const std::int64_t> indices,
                                          const PictureLimits& limits) {
  const Result<const MediaLibrary*> library = load_media_library();
  if (!library) return library.refusal();
  return library.value()->decode_video(file, indices, limits);
}

}  // namespace tributary::data
