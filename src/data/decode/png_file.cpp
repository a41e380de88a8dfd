#include "data/decode/png_file.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <png.h>
#include <string_view>

namespace tributary::data {
namespace {

constexpr std::array<std::uint8_t, 8> kSignature{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr std::size_t kHeaderBytes = 8 + 8 + 13 + 4;  // signature, IHDR: length and name, body, CRC
constexpr int kMaxChunks = 1000;
constexpr std::size_t kMaxChunkBytes = std::size_t{8} << 20;
constexpr std::int64_t kMaxInflation = 1032;  // deflate: 258 bytes for 2 bits

/// The state of libpng's callbacks. It is plain data, so that longjmp skips no destructor.
struct PngRun {
  const std::uint8_t* input = nullptr;
  std::size_t left = 0;
  std::vector<std::uint8_t>* output = nullptr;
  std::array<char, 160> problem{};
};

void stop_with_message(png_structp png, png_const_charp message) {
  auto* run = static_cast<PngRun*>(png_get_error_ptr(png));
  std::strncpy(run->problem.data(), message, run->problem.size() - 1);
  png_longjmp(png, 1);
}
void ignore_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep to, std::size_t count) {
  auto* run = static_cast<PngRun*>(png_get_io_ptr(png));
  if (count > run->left) png_error(png, "file ends too early");
  std::memcpy(to, run->input, count);
  run->input += count;
  run->left -= count;
}
void write_bytes(png_structp png, png_bytep from, std::size_t count) {
  auto* run = static_cast<PngRun*>(png_get_io_ptr(png));
  run->output->insert(run->output->end(), from, from + count);
}
void flush_nothing(png_structp) {}

/// Sets the limits; ancillary chunks that could inflate are skipped unread.
void set_limits(png_structp png, const PictureLimits& limits) {
  const auto side = static_cast<png_uint_32>(limits.max_side);
  png_set_user_limits(png, side, side);
  png_set_chunk_malloc_max(png, kMaxChunkBytes);
  png_set_chunk_cache_max(png, kMaxChunks);
  png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  static constexpr png_byte skipped[] = "iCCP\0zTXt\0iTXt\0tEXt\0eXIf\0sPLT\0hIST\0pCAL\0sCAL";
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, skipped, 9);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
}

/// Makes libpng give 8-bit RGB, whatever is stored.
void set_conversions(png_structp png, png_infop info) {
  const png_byte colour = png_get_color_type(png, info);
  if (png_get_bit_depth(png, info) == 16) png_set_strip_16(png);
  png_set_expand(png);  // palettes to RGB, grey to 8 bits, tRNS to alpha
  if ((colour & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
}

/// Runs libpng from signature to IEND. `rows` and `rgb` belong to the caller: a longjmp lands here
/// and must skip no destructor.
bool read_rows(PngRun& run, const PictureLimits& limits, PictureSize expected,
               std::vector<std::uint8_t>& rgb, std::vector<png_bytep>& rows) {
  png_structp png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, &run, stop_with_message, ignore_warning);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  if (info == nullptr) {
    png_destroy_read_struct(&png, nullptr, nullptr);
    std::strncpy(run.problem.data(), "libpng has no memory", run.problem.size() - 1);
    return false;
  }
  if (setjmp(png_jmpbuf(png)) != 0) {
    png_destroy_read_struct(&png, &info, nullptr);
    return false;
  }
  png_set_read_fn(png, &run, read_bytes);
  set_limits(png, limits);
  png_read_info(png, info);
  if (png_get_image_width(png, info) != expected.width ||
      png_get_image_height(png, info) != expected.height)
    png_error(png, "size differs from the header");
  set_conversions(png, info);
  png_read_update_info(png, info);
  if (png_get_rowbytes(png, info) != static_cast<std::size_t>(expected.width) * 3)
    png_error(png, "row is not 8-bit RGB");
  for (std::size_t y = 0; y < rows.size(); ++y)
    rows[y] = rgb.data() + y * static_cast<std::size_t>(expected.width) * 3;
  png_read_image(png, rows.data());
  png_read_end(png, nullptr);
  png_destroy_read_struct(&png, &info, nullptr);
  return true;
}

void write_rows(PngRun& run, const Picture& picture) {
  png_structp png =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, &run, stop_with_message, ignore_warning);
  png_infop info = png_create_info_struct(png);
  if (setjmp(png_jmpbuf(png)) != 0) {
    png_destroy_write_struct(&png, &info);
    return;
  }
  png_set_write_fn(png, &run, write_bytes, flush_nothing);
  png_set_IHDR(png, info, static_cast<png_uint_32>(picture.width),
               static_cast<png_uint_32>(picture.height), 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  for (int y = 0; y < picture.height; ++y)
    png_write_row(png, picture.rgb.data() + static_cast<std::size_t>(y) * 3 *
                                                static_cast<std::size_t>(picture.width));
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
}

std::int64_t big_endian(std::span<const std::uint8_t> bytes) {
  return std::int64_t{bytes[0]} << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

/// Refuses a header that promises more than the file can inflate to, before memory is taken for it.
std::optional<Refusal> refuse_promise(std::span<const std::uint8_t> file, PictureSize size) {
  static constexpr std::array<std::int64_t, 7> kChannels{1, 0, 3, 1, 2, 0, 4};  // by colour type
  const std::uint8_t depth = file[24];
  const std::uint8_t colour = file[25];
  if (colour >= kChannels.size() || kChannels[colour] == 0)
    return Refusal{"png_damaged", str("PNG: colour type ", int{colour})};
  const std::int64_t promised = size.height * size.width * kChannels[colour] * depth / 8;
  if (promised / kMaxInflation <= std::ssize(file)) return std::nullopt;
  return Refusal{"png_damaged", str("PNG: ", size.width, " x ", size.height,
                                    " pixels cannot come out of ", file.size(), " bytes")};
}

}  // namespace

bool is_png(std::span<const std::uint8_t> file) {
  return file.size() >= kSignature.size() &&
         std::equal(kSignature.begin(), kSignature.end(), file.begin());
}

Result<PictureSize> read_png_size(std::span<const std::uint8_t> file, const PictureLimits& limits) {
  if (file.size() < kHeaderBytes)
    return Refusal{"header_cut", str("PNG file ends after ", file.size(), " bytes")};
  if (big_endian(file.subspan(8)) != 13 || std::memcmp(file.data() + 12, "IHDR", 4) != 0)
    return Refusal{"png_damaged", "PNG file does not begin with IHDR"};
  const PictureSize size{.height = big_endian(file.subspan(20)),
                         .width = big_endian(file.subspan(16))};
  if (auto refusal = refuse_size(size, limits)) return *refusal;
  return size;
}

Result<Picture> decode_png(std::span<const std::uint8_t> file, const PictureLimits& limits) {
  const Result<PictureSize> size = read_png_size(file, limits);
  if (!size) return size.refusal();
  if (auto refusal = refuse_promise(file, size.value())) return *refusal;
  Picture picture{.width = static_cast<int>(size.value().width),
                  .height = static_cast<int>(size.value().height),
                  .rgb = {}};
  const auto height = static_cast<std::size_t>(picture.height);
  picture.rgb.resize(static_cast<std::size_t>(picture.width) * height * 3);
  std::vector<png_bytep> rows(height);
  PngRun run{.input = file.data(), .left = file.size(), .output = nullptr, .problem = {}};
  if (!read_rows(run, limits, size.value(), picture.rgb, rows)) {
    const std::string problem = escaped(run.problem.data());
    const bool crc = problem.find("CRC") != std::string::npos;
    return Refusal{crc ? "png_crc" : "png_damaged", "PNG: " + problem};
  }
  return picture;
}

std::vector<std::uint8_t> write_png(const Picture& picture) {
  TRIB_CHECK(picture.width > 0 && picture.height > 0 &&
                 picture.rgb.size() == static_cast<std::size_t>(picture.width) *
                                           static_cast<std::size_t>(picture.height) * 3,
             .what = "data: picture does not have width * height * 3 values",
             .found = str(picture.width, " x ", picture.height, ", ", picture.rgb.size()));
  std::vector<std::uint8_t> bytes;
  PngRun run{.input = nullptr, .left = 0, .output = &bytes, .problem = {}};
  write_rows(run, picture);
  TRIB_CHECK(run.problem[0] == '\0', .what = "data: PNG was not written",
             .found = run.problem.data());
  return bytes;
}

}  // namespace tributary::data
