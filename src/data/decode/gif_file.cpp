#include "data/decode/gif_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <gif_lib.h>
#include <memory>
#include <optional>

namespace tributary::data {
namespace {

constexpr std::size_t kScreenBytes = 13;  // signature and screen descriptor
constexpr std::int64_t kMaxGifInflation =
    4096;  // LZW: a code of 12 bits stands for at most so many

struct Input {
  std::span<const std::uint8_t> file;
  std::size_t at = 0;
};

int read_bytes(GifFileType* gif, GifByteType* to, int count) {
  auto& input = *static_cast<Input*>(gif->UserData);
  const std::size_t got = std::min(static_cast<std::size_t>(count), input.file.size() - input.at);
  if (got > 0) std::memcpy(to, input.file.data() + input.at, got);
  input.at += got;
  return static_cast<int>(got);
}

struct CloseGif {
  void operator()(GifFileType* gif) const { (void)DGifCloseFile(gif, nullptr); }
};
using Gif = std::unique_ptr<GifFileType, CloseGif>;

/// A file that stands before the pixels of its first frame.
struct FirstFrame {
  std::unique_ptr<Input> input;
  Gif gif;
  std::optional<int> transparent;
};

std::string problem_of(int error) {
  const char* text = GifErrorString(error);
  return text != nullptr ? text : "file ends too early";
}

/// Refuses with `header_cut` what a longer part of the file may mend.
Refusal refuse(const FirstFrame& frame, int error) {
  const bool is_cut = frame.input->at == frame.input->file.size();
  return {is_cut ? "header_cut" : "gif_damaged", "GIF: " + problem_of(error)};
}

/// Keeps the transparent colour of a graphics control block.
void take_control(int code, const GifByteType* block, FirstFrame& frame) {
  GraphicsControlBlock control{};
  if (code == GRAPHICS_EXT_FUNC_CODE && block != nullptr &&
      DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK &&
      control.TransparentColor != NO_TRANSPARENT_COLOR)
    frame.transparent = control.TransparentColor;
}

Result<FirstFrame> open_first_frame(std::span<const std::uint8_t> file) {
  if (file.size() < kScreenBytes)
    return Refusal{"header_cut", str("GIF file ends after ", file.size(), " bytes")};
  FirstFrame frame;
  frame.input = std::make_unique<Input>(Input{.file = file});
  int error = 0;
  frame.gif = Gif(DGifOpen(frame.input.get(), read_bytes, &error));
  if (!frame.gif) return refuse(frame, error);
  for (;;) {
    GifRecordType kind = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(frame.gif.get(), &kind) != GIF_OK) return refuse(frame, frame.gif->Error);
    if (kind == TERMINATE_RECORD_TYPE) return Refusal{"gif_damaged", "GIF: holds no frame"};
    if (kind == IMAGE_DESC_RECORD_TYPE) break;
    int code = 0;
    GifByteType* block = nullptr;
    int status = DGifGetExtension(frame.gif.get(), &code, &block);
    take_control(code, block, frame);
    while (status == GIF_OK && block != nullptr)
      status = DGifGetExtensionNext(frame.gif.get(), &block);
    if (status != GIF_OK) return refuse(frame, frame.gif->Error);
  }
  if (DGifGetImageDesc(frame.gif.get()) != GIF_OK) return refuse(frame, frame.gif->Error);
  return frame;
}

/// The canvas, which grows where the first frame is larger.
PictureSize size_of(const GifFileType& gif) {
  const GifImageDesc& image = gif.Image;
  return {.height = std::max<std::int64_t>(gif.SHeight, image.Top + image.Height),
          .width = std::max<std::int64_t>(gif.SWidth, image.Left + image.Width)};
}

/// The rows of a frame in the order of the file.
std::vector<int> order_rows(const GifImageDesc& image) {
  std::vector<int> rows;
  if (!image.Interlace) {
    for (int y = 0; y < image.Height; ++y) rows.push_back(y);
    return rows;
  }
  constexpr std::array<std::array<int, 2>, 4> kPasses{{{0, 8}, {4, 8}, {2, 4}, {1, 2}}};
  for (const auto& [first, step] : kPasses)
    for (int y = first; y < image.Height; y += step) rows.push_back(y);
  return rows;
}

/// The colours of all indices: the map of the frame or of the file, grey without one.
std::array<GifColorType, 256> colours_of(const GifFileType& gif) {
  std::array<GifColorType, 256> colours{};
  for (std::size_t i = 0; i < colours.size(); ++i) {
    const auto grey = static_cast<GifByteType>(i);
    colours[i] = {grey, grey, grey};
  }
  const ColorMapObject* map = gif.Image.ColorMap != nullptr ? gif.Image.ColorMap : gif.SColorMap;
  if (map != nullptr) std::copy_n(map->Colors, std::min(map->ColorCount, 256), colours.begin());
  return colours;
}

}  // namespace

bool is_gif(std::span<const std::uint8_t> file) {
  return file.size() >= 6 &&
         (std::memcmp(file.data(), "GIF87a", 6) == 0 || std::memcmp(file.data(), "GIF89a", 6) == 0);
}

Result<PictureSize> read_gif_size(std::span<const std::uint8_t> file, const PictureLimits& limits) {
  const Result<FirstFrame> frame = open_first_frame(file);
  if (!frame) return frame.refusal();
  const PictureSize size = size_of(*frame.value().gif);
  if (auto refusal = refuse_size(size, limits)) return *refusal;
  return size;
}

Result<Picture> decode_gif(std::span<const std::uint8_t> file, const PictureLimits& limits) {
  const Result<FirstFrame> opened = open_first_frame(file);
  if (!opened) return opened.refusal();
  GifFileType& gif = *opened.value().gif;
  const PictureSize size = size_of(gif);
  if (auto refusal = refuse_size(size, limits)) return *refusal;
  const GifImageDesc& image = gif.Image;
  if (std::int64_t{image.Width} * image.Height / kMaxGifInflation > std::ssize(file))
    return Refusal{"gif_damaged", str("GIF: ", image.Width, " x ", image.Height,
                                      " pixels cannot come out of ", file.size(), " bytes")};
  const auto width = static_cast<std::size_t>(size.width);
  std::vector<GifByteType> indices(
      width * static_cast<std::size_t>(size.height),
      static_cast<GifByteType>(opened.value().transparent.value_or(0)));
  for (const int row : order_rows(image)) {
    GifByteType* to = indices.data() + static_cast<std::size_t>(image.Top + row) * width +
                      static_cast<std::size_t>(image.Left);
    if (DGifGetLine(&gif, to, image.Width) != GIF_OK)
      return Refusal{"gif_damaged", "GIF: " + problem_of(gif.Error)};
  }
  const std::array<GifColorType, 256> colours = colours_of(gif);
  Picture picture{
      .width = static_cast<int>(size.width), .height = static_cast<int>(size.height), .rgb = {}};
  picture.rgb.reserve(indices.size() * 3);
  for (const GifByteType index : indices)
    for (const std::uint8_t value : {colours[index].Red, colours[index].Green, colours[index].Blue})
      picture.rgb.push_back(value);
  return picture;
}

}  // namespace tributary::data
