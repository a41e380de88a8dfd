#include "data/decode/ffmpeg/media_stream.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "core/text.h"

namespace tributary::data {
namespace {

constexpr int kBufferBytes = 1 << 16;

}  // namespace

int MediaBytes::read(void* self, std::uint8_t* out, int max) {
  auto& bytes = *static_cast<MediaBytes*>(self);
  const std::size_t count = std::min(static_cast<std::size_t>(max), bytes.file_.size() - bytes.at_);
  if (count == 0) return AVERROR_EOF;
  std::memcpy(out, bytes.file_.data() + bytes.at_, count);
  bytes.at_ += count;
  return static_cast<int>(count);
}

std::int64_t MediaBytes::seek(void* self, std::int64_t offset, int whence) {
  auto& bytes = *static_cast<MediaBytes*>(self);
  const auto size = static_cast<std::int64_t>(bytes.file_.size());
  if ((whence & AVSEEK_SIZE) != 0) return size;
  const std::int64_t from = whence == SEEK_SET   ? 0
                            : whence == SEEK_CUR ? static_cast<std::int64_t>(bytes.at_)
                                                 : size;
  if (from + offset < 0 || from + offset > size) return AVERROR(EINVAL);
  bytes.at_ = static_cast<std::size_t>(from + offset);
  return from + offset;
}

Refusal MediaStream::damaged(const std::string& what, int code) const {
  std::array<char, AV_ERROR_MAX_STRING_SIZE> text{};
  (void)av_strerror(code, text.data(), text.size());
  return {damaged_, str(what, ": ", text.data())};
}

std::optional<Refusal> MediaStream::open() {
  auto* buffer = static_cast<std::uint8_t*>(av_malloc(kBufferBytes));
  io_.reset(avio_alloc_context(buffer, kBufferBytes, 0, &bytes_, MediaBytes::read, nullptr,
                               MediaBytes::seek));
  AVFormatContext* input = avformat_alloc_context();
  input->pb = io_.get();
  if (const int code = avformat_open_input(&input, nullptr, nullptr, nullptr); code < 0)
    return damaged("no known container", code);  // it has freed `input`
  input_.reset(input);
  const std::string_view format = input->iformat->name;
  if (format.ends_with("_pipe") || format == "image2")
    return Refusal{damaged_, "a picture, no video; a clip of pictures is a list of them"};
  if (const int code = avformat_find_stream_info(input, nullptr); code < 0)
    return damaged("no stream information", code);
  const AVCodec* codec = nullptr;
  stream_ = av_find_best_stream(input, kind_, -1, -1, &codec, 0);
  if (stream_ < 0 || codec == nullptr)
    return damaged(str("no ", av_get_media_type_string(kind_), " stream"), stream_);
  decoder_.reset(avcodec_alloc_context3(codec));
  (void)avcodec_parameters_to_context(decoder_.get(), stream().codecpar);
  decoder_->pkt_timebase = stream().time_base;  // by which what an encoder put in front is cut off
  decoder_->thread_count = 1;                   // the workers of the loader are the threads
  if (const int code = avcodec_open2(decoder_.get(), codec, nullptr); code < 0)
    return damaged("no decoder", code);
  return std::nullopt;
}

std::int64_t MediaStream::count_packets() {
  const OwnedMedia<AVPacket> packet(av_packet_alloc());
  std::int64_t count = 0;
  for (; av_read_frame(input_.get(), packet.get()) >= 0; av_packet_unref(packet.get()))
    count += packet->stream_index == stream_ ? 1 : 0;
  return count;
}

std::optional<Refusal> MediaStream::decode(const std::function<bool(const AVFrame&)>& take) {
  const OwnedMedia<AVPacket> packet(av_packet_alloc());
  const OwnedMedia<AVFrame> frame(av_frame_alloc());
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

}  // namespace tributary::data
