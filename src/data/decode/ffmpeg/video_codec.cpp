// The library libtributary_video.so: FFmpeg's demuxers and decoders behind decode/video_file.h and
// decode/sound_file.h.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/text.h"
#include "data/decode/ffmpeg/media_stream.h"
#include "data/decode/ffmpeg/sound_codec.h"
#include "data/decode/media_library.h"

extern "C" {
#include <libswscale/swscale.h>
}

namespace tributary::data {
namespace {

struct DeleteScaler {
  void operator()(SwsContext* scaler) const { sws_freeContext(scaler); }
};
using Scaler = std::unique_ptr<SwsContext, DeleteScaler>;

/// The pictures of a file.
class Video final : public MediaStream {
 public:
  explicit Video(std::span<const std::uint8_t> file)
      : MediaStream(file, AVMEDIA_TYPE_VIDEO, "video_damaged") {}

  [[nodiscard]] PictureSize size() const {
    return {.height = stream().codecpar->height, .width = stream().codecpar->width};
  }
  [[nodiscard]] double fps() const {
    const AVRational rate =
        stream().avg_frame_rate.num > 0 ? stream().avg_frame_rate : stream().r_frame_rate;
    return rate.den > 0 ? av_q2d(rate) : 0;
  }
  /// The number of frames, by the header or else by the packets; then nothing can be decoded.
  [[nodiscard]] std::int64_t count_frames() {
    return stream().nb_frames > 0 ? stream().nb_frames : count_packets();
  }
};

Result<Picture> to_rgb(const AVFrame& frame, Scaler& scaler) {
  const auto format = static_cast<AVPixelFormat>(frame.format);
  scaler.reset(sws_getCachedContext(scaler.release(), frame.width, frame.height, format,
                                    frame.width, frame.height, AV_PIX_FMT_RGB24, SWS_BICUBIC,
                                    nullptr, nullptr, nullptr));
  if (!scaler) return Refusal{"video_damaged", "pixels are in an unknown format"};
  const int matrix = frame.colorspace == AVCOL_SPC_UNSPECIFIED ? SWS_CS_DEFAULT : frame.colorspace;
  const int full_range = frame.color_range == AVCOL_RANGE_JPEG ? 1 : 0;
  constexpr int kOne = 1 << 16;
  (void)sws_setColorspaceDetails(scaler.get(), sws_getCoefficients(matrix), full_range,
                                 sws_getCoefficients(SWS_CS_DEFAULT), /*dstRange=*/1,
                                 /*brightness=*/0, /*contrast=*/kOne, /*saturation=*/kOne);
  // The scaler writes whole vectors, so rows need room behind their last pixel.
  constexpr std::size_t kAlignment = 64;
  const std::size_t width = 3 * static_cast<std::size_t>(frame.width);
  const std::size_t stride = (width + kAlignment - 1) / kAlignment * kAlignment;
  const auto height = static_cast<std::size_t>(frame.height);
  std::vector<std::uint8_t> wide(stride * height + kAlignment);
  std::uint8_t* rows[] = {wide.data()};
  const int strides[] = {static_cast<int>(stride)};
  (void)sws_scale(scaler.get(), frame.data, frame.linesize, 0, frame.height, rows, strides);
  Picture picture{.width = frame.width, .height = frame.height, .rgb = {}};
  picture.rgb.reserve(width * height);
  for (std::size_t row = 0; row < height; ++row)
    picture.rgb.insert(picture.rgb.end(), wide.data() + row * stride,
                       wide.data() + row * stride + width);
  return picture;
}

Result<VideoHeader> read_header(std::span<const std::uint8_t> file, const PictureLimits& limits) {
  Video video(file);
  if (auto refusal = video.open()) return *refusal;
  if (auto refusal = refuse_size(video.size(), limits)) return *refusal;
  const VideoHeader header{
      .size = video.size(), .frames = video.count_frames(), .fps = video.fps()};
  if (header.frames < 1 || header.fps <= 0)
    return Refusal{"no_frames",
                   str("the stream has ", header.frames, " frames at ", header.fps, " a second")};
  return header;
}

Result<std::vector<Picture>> decode(std::span<const std::uint8_t> file,
                                    std::span<const std::int64_t> indices,
                                    const PictureLimits& limits) {
  Video video(file);
  if (auto refusal = video.open()) return *refusal;
  if (auto refusal = refuse_size(video.size(), limits)) return *refusal;
  std::vector<Picture> pictures;
  std::optional<Refusal> refused;
  Scaler scaler;
  std::int64_t shown = 0;
  const auto take = [&](const AVFrame& frame) {
    if (pictures.size() == indices.size()) return false;
    if (shown++ != indices[pictures.size()]) return true;
    const bool same = frame.width == video.size().width && frame.height == video.size().height;
    Result<Picture> picture =
        same ? to_rgb(frame, scaler)
             : Result<Picture>(Refusal{"video_damaged", "frames differ in size"});
    if (!picture)
      refused = picture.refusal();
    else
      pictures.push_back(std::move(picture).value());
    return !refused && pictures.size() < indices.size();
  };
  if (auto refusal = video.decode(take)) return *refusal;
  if (refused) return *refused;
  if (pictures.size() < indices.size())
    return Refusal{"video_damaged", str("frame ", indices[pictures.size()],
                                        " is not there: ", shown, " frames can be decoded")};
  return pictures;
}

}  // namespace
}  // namespace tributary::data

/// The only symbol that data/decode/media_library.cpp looks up.
extern "C" const tributary::data::MediaLibrary* tributary_video() {
  using namespace tributary::data;
  av_log_set_level(AV_LOG_QUIET);  // what is damaged is refused by name
  static const MediaLibrary library{.read_video_header = read_header,
                                    .decode_video = decode,
                                    .read_sound_size = count_samples,
                                    .decode_sound = decode_stream};
  return &library;
}
