#include "data/decode/media_library.h"

#include "core/machine/own_library.h"
#include "core/text.h"

namespace tributary::data {

Result<const MediaLibrary*> load_media_library() {
  using Give = const MediaLibrary* (*)();
  static const Result<void*> give = find_in_own_library("libtributary_video.so", "tributary_video");
  if (give) return reinterpret_cast<Give>(give.value())();
  return Refusal{
      "video_reader",
      str("this build reads no video files, nor sound in their containers: ", give.refusal().reason,
          "; install libavformat-dev, libavcodec-dev and libswscale-dev, and build again")};
}

}  // namespace tributary::data
