// The library libtributary_video.so: FFmpeg's demuxers and decoders behind decode/video_file.h.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/text.h"
#include "data/decode/video_file.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>
}

namespace tributary::data {
namespace {

constexpr int kBufferBytes = 1 << 16;

struct Deleter {
  void operator()(AVFormatContext* input) const { avformat_close_input(&input); }
  void operator()(AVCodecContext* decoder) const { avcodec_free_context(&decoder); }
  void operator()(AVPacket* packet) const { av_packet_free(&packet); }
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
  void operator()(SwsContext* scaler) const { sws_freeContext(scaler); }
  void operator()(AVIOContext* io) const {
    av_freep(&io->buffer);
    avio_context_free(&io);
  }
};
template <class T>
using Owned = std::unique_ptr<T, Deleter>;

Refusal damaged(const std::string& what, int code) {
  std::array<char, AV_ERROR_MAX_STRING_SIZE> text{};
  (void)av_strerror(code, text.data(), text.size());
  return {"video_damaged", str(what, ": ", text.data())};
}

/// A file in memory, as FFmpeg reads it.
class Bytes {
 public:
  explicit Bytes(std::span<const std::uint8_t> file) : file_(file) {}

  static int read(void* self, std::uint8_t* out, int most) {
    auto& bytes = *static_cast<Bytes*>(self);
    const std::size_t count =
        std::min(static_cast<std::size_t>(most), bytes.file_.size() - bytes.at_);
    if (count == 0) return AVERROR_EOF;
    std::memcpy(out, bytes.file_.data() + bytes.at_, count);
    bytes.at_ += count;
    return static_cast<int>(count);
  }
  static std::int64_t seek(void* self, std::int64_t offset, int whence) {
    auto& bytes = *static_cast<Bytes*>(self);
    const auto size = static_cast<std::int64_t>(bytes.file_.size());
    if ((whence & AVSEEK_SIZE) != 0) return size;
    const std::int64_t from = whence == SEEK_SET   ? 0
                              : whence == SEEK_CUR ? static_cast<std::int64_t>(bytes.at_)
                                                   : size;
    if (from + offset < 0 || from + offset > size) return AVERROR(EINVAL);
    bytes.at_ = static_cast<std::size_t>(from + offset);
    return from + offset;
  }

 private:
  std::span<const std::uint8_t> file_;
  std::size_t at_ = 0;
};

/// An opened file and the decoder of its first video stream.
class Video {
 public:
  explicit Video(std::span<const std::uint8_t> file) : bytes_(file) {}

  /// Null when it is open.
  std::optional<Refusal> open() {
    auto* buffer = static_cast<std::uint8_t*>(av_malloc(kBufferBytes));
    io_.reset(
        avio_alloc_context(buffer, kBufferBytes, 0, &bytes_, Bytes::read, nullptr, Bytes::seek));
    AVFormatContext* input = avformat_alloc_context();
    input->pb = io_.get();
    if (const int code = avformat_open_input(&input, nullptr, nullptr, nullptr); code < 0)
      return damaged("no known container", code);  // it has freed `input`
    input_.reset(input);
    const std::string_view format = input->iformat->name;
    if (format.ends_with("_pipe") || format == "image2")
      return Refusal{"video_damaged", "a picture, no video; a clip of pictures is a list of them"};
    if (const int code = avformat_find_stream_info(input, nullptr); code < 0)
      return damaged("no stream information", code);
    const AVCodec* codec = nullptr;
    stream_ = av_find_best_stream(input, AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0);
    if (stream_ < 0 || codec == nullptr) return damaged("no video stream", stream_);
    decoder_.reset(avcodec_alloc_context3(codec));
    (void)avcodec_parameters_to_context(decoder_.get(), stream().codecpar);
    decoder_->thread_count = 1;  // the workers of the loader are the threads
    if (const int code = avcodec_open2(decoder_.get(), codec, nullptr); code < 0)
      return damaged("no decoder", code);
    return std::nullopt;
  }

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
    if (stream().nb_frames > 0) return stream().nb_frames;
    const Owned<AVPacket> packet(av_packet_alloc());
    std::int64_t count = 0;
    for (; av_read_frame(input_.get(), packet.get()) >= 0; av_packet_unref(packet.get()))
      count += packet->stream_index == stream_ ? 1 : 0;
    return count;
  }

  /// Calls take(frame) for each frame in the order in which they are shown, while it returns true.
  template <class Take>
  std::optional<Refusal> decode(const Take& take) {
    const Owned<AVPacket> packet(av_packet_alloc());
    const Owned<AVFrame> frame(av_frame_alloc());
    for (bool at_end = false; !at_end;) {
      at_end = av_read_frame(input_.get(), packet.get()) < 0;
      if (!at_end && packet->stream_index != stream_) {
        av_packet_unref(packet.get());
        continue;
      }
      const int sent = avcodec_send_packet(decoder_.get(), at_end ? nullptr : packet.get());
      av_packet_unref(packet.get());
      if (sent < 0) return damaged("a packet cannot be decoded", sent);
      while (avcodec_receive_frame(decoder_.get(), frame.get()) >= 0)
        if (!take(*frame)) return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] const AVStream& stream() const { return *input_->streams[stream_]; }

  Bytes bytes_;
  Owned<AVIOContext> io_;  // outlives what reads through it
  Owned<AVFormatContext> input_;
  Owned<AVCodecContext> decoder_;
  int stream_ = -1;
};

Result<Picture> to_rgb(const AVFrame& frame, Owned<SwsContext>& scaler) {
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
  Owned<SwsContext> scaler;
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

/// The only symbol that data/decode/video_file.cpp looks up.
extern "C" const tributary::data::VideoCodec* tributary_video() {
  using namespace tributary::data;
  av_log_set_level(AV_LOG_QUIET);  // what is damaged is refused by name
  static const VideoCodec codec{.read_header = read_header, .decode = decode};
  return &codec;
}
