#include "data/decode/webp_file.h"

#include <cstring>
#include <memory>
#include <webp/decode.h>
#include <webp/demux.h>

#include "data/decode/orientation.h"

namespace tributary::data {
namespace {

constexpr std::size_t kWebpHeaderBytes = 32;  // RIFF, WEBP and the header of the first chunk
constexpr std::uint8_t kHasExif = 0x08;       // in the flags of a VP8X chunk

/// What the beginning of the file says.
struct WebpHeader {
  PictureSize stored;
  bool is_animation = false;
  bool has_exif = false;
  std::size_t promised = 0;  // bytes of the file, by its RIFF header
};

Refusal webp_damaged(const std::string& reason) { return {"webp_damaged", "WebP: " + reason}; }
Refusal webp_cut(std::size_t bytes) {
  return {"header_cut", str("WebP file ends after ", bytes, " bytes")};
}

std::size_t little_endian(std::span<const std::uint8_t> bytes) {
  return std::size_t{bytes[0]} | std::size_t{bytes[1]} << 8 | std::size_t{bytes[2]} << 16 |
         std::size_t{bytes[3]} << 24;
}

Result<WebpHeader> read_webp_header(std::span<const std::uint8_t> file) {
  WebPBitstreamFeatures features{};
  if (file.size() < kWebpHeaderBytes) return webp_cut(file.size());
  const VP8StatusCode status = WebPGetFeatures(file.data(), file.size(), &features);
  if (status == VP8_STATUS_NOT_ENOUGH_DATA) return webp_cut(file.size());
  if (status != VP8_STATUS_OK) return webp_damaged(str("header is not valid, code ", int{status}));
  return WebpHeader{
      .stored = {.height = features.height, .width = features.width},
      .is_animation = features.has_animation != 0,
      .has_exif = std::memcmp(file.data() + 12, "VP8X", 4) == 0 && (file[20] & kHasExif) != 0,
      .promised = little_endian(file.subspan(4)) + 8};
}

struct CloseDemuxer {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};
using Demuxer = std::unique_ptr<WebPDemuxer, CloseDemuxer>;

/// The orientation in the chunk EXIF, which stands behind the pixels: the whole file is needed.
Result<int> orientation_of(std::span<const std::uint8_t> file, const WebpHeader& header) {
  if (!header.has_exif) return 1;
  if (file.size() < header.promised) return webp_cut(file.size());
  const WebPData data{.bytes = file.data(), .size = file.size()};
  const Demuxer demuxer(WebPDemux(&data));
  if (!demuxer) return webp_damaged("chunks are not valid");
  WebPChunkIterator chunk{};
  int orientation = 1;
  if (WebPDemuxGetChunk(demuxer.get(), "EXIF", 1, &chunk) != 0) {
    std::span block(chunk.chunk.bytes, chunk.chunk.size);
    if (block.size() >= 6 && std::memcmp(block.data(), "Exif\0\0", 6) == 0)
      block = block.subspan(6);
    orientation = find_orientation(block).value_or(1);
  }
  WebPDemuxReleaseChunkIterator(&chunk);
  return orientation;
}

bool decode_still(std::span<const std::uint8_t> file, Picture& picture) {
  return WebPDecodeRGBInto(file.data(), file.size(), picture.rgb.data(), picture.rgb.size(),
                           picture.width * 3) != nullptr;
}

struct CloseAnimation {
  void operator()(WebPAnimDecoder* decoder) const { WebPAnimDecoderDelete(decoder); }
};

/// Decodes the first frame onto its canvas.
bool decode_first_frame(std::span<const std::uint8_t> file, Picture& picture) {
  WebPAnimDecoderOptions options{};
  if (WebPAnimDecoderOptionsInit(&options) == 0) return false;
  options.color_mode = MODE_RGBA;
  const WebPData data{.bytes = file.data(), .size = file.size()};
  const std::unique_ptr<WebPAnimDecoder, CloseAnimation> decoder(
      WebPAnimDecoderNew(&data, &options));
  std::uint8_t* rgba = nullptr;
  int time = 0;
  if (!decoder || WebPAnimDecoderGetNext(decoder.get(), &rgba, &time) == 0) return false;
  for (std::size_t pixel = 0; pixel * 3 < picture.rgb.size(); ++pixel)
    std::memcpy(picture.rgb.data() + pixel * 3, rgba + pixel * 4, 3);
  return true;
}

}  // namespace

bool is_webp(std::span<const std::uint8_t> file) {
  return file.size() >= 12 && std::memcmp(file.data(), "RIFF", 4) == 0 &&
         std::memcmp(file.data() + 8, "WEBP", 4) == 0;
}

Result<PictureSize> read_webp_size(std::span<const std::uint8_t> file,
                                   const PictureLimits& limits) {
  const Result<WebpHeader> header = read_webp_header(file);
  if (!header) return header.refusal();
  if (auto refusal = refuse_size(header.value().stored, limits)) return *refusal;
  const Result<int> orientation = orientation_of(file, header.value());
  if (!orientation) return orientation.refusal();
  return size_upright(header.value().stored, orientation.value());
}

Result<Picture> decode_webp(std::span<const std::uint8_t> file, const PictureLimits& limits) {
  if (const auto size = read_webp_size(file, limits); !size) return size.refusal();
  const WebpHeader header = read_webp_header(file).value();
  const int orientation = orientation_of(file, header).value();
  Picture picture{.width = static_cast<int>(header.stored.width),
                  .height = static_cast<int>(header.stored.height),
                  .rgb = {}};
  picture.rgb.resize(static_cast<std::size_t>(header.stored.width * header.stored.height) * 3);
  const bool done =
      header.is_animation ? decode_first_frame(file, picture) : decode_still(file, picture);
  if (!done)
    return webp_damaged(file.size() < header.promised ? str("file ends after ", file.size(), " of ",
                                                            header.promised, " bytes")
                                                      : "pixels cannot be decoded");
  return make_upright(std::move(picture), orientation);
}

}  // namespace tributary::data
