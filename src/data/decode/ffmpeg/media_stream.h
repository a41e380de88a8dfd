#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/result.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
}

namespace tributary::data {

struct DeleteMedia {
  void operator()(AVFormatContext* input) const { avformat_close_input(&input); }
  void operator()(AVCodecContext* decoder) const { avcodec_free_context(&decoder); }
  void operator()(AVPacket* packet) const { av_packet_free(&packet); }
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
  void operator()(AVIOContext* io) const {
    av_freep(&io->buffer);
    avio_context_free(&io);
  }
};
template <class T>
using OwnedMedia = std::unique_ptr<T, DeleteMedia>;

/// A file in memory, as FFmpeg reads it.
class MediaBytes {
 public:
  explicit MediaBytes(std::span<const std::uint8_t> file) : file_(file) {}

  static int read(void* self, std::uint8_t* out, int max);
  static std::int64_t seek(void* self, std::int64_t offset, int whence);

 private:
  std::span<const std::uint8_t> file_;
  std::size_t at_ = 0;
};

/// An opened file and the decoder of its first stream of a kind.
class MediaStream {
 public:
  /// `damaged` is the code of refusals.
  MediaStream(std::span<const std::uint8_t> file, AVMediaType kind, std::string damaged)
      : bytes_(file), kind_(kind), damaged_(std::move(damaged)) {}

  /// Null when it is open.
  [[nodiscard]] std::optional<Refusal> open();
  /// Whether it could not be opened because the file has no stream of the kind.
  [[nodiscard]] bool lacks_stream() const { return stream_ == AVERROR_STREAM_NOT_FOUND; }
  [[nodiscard]] const AVFormatContext& input() const { return *input_; }
  [[nodiscard]] const AVStream& stream() const { return *input_->streams[stream_]; }

  /// Counts the packets of the stream; then nothing can be decoded.
  [[nodiscard]] std::int64_t count_packets();
  /// Calls take(frame) for each frame in the order in which they are shown, while it returns true.
  [[nodiscard]] std::optional<Refusal> decode(const std::function<bool(const AVFrame&)>& take);

 private:
  [[nodiscard]] Refusal damaged(const std::string& what, int code) const;

  MediaBytes bytes_;
  AVMediaType kind_;
  std::string damaged_;
  OwnedMedia<AVIOContext> io_;  // outlives what reads through it
  OwnedMedia<AVFormatContext> input_;
  OwnedMedia<AVCodecContext> decoder_;
  int stream_ = -1;
};

}  // namespace tributary::data
