#include "data/decode/decode_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/random.h"
#include "data/decode/data_url.h"
#include "data/decode/jpeg_file.h"
#include "data/decode/png_file.h"
#include "tests/data/golden_pictures.h"

namespace tributary::data {
namespace {

using ::testing::HasSubstr;

/// A picture with a gradient; big enough for a JPEG with several blocks.
Picture paint(int width, int height) {
  Picture picture{.width = width, .height = height, .rgb = {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (const int value : {x * 5, y * 7, x + y})
        picture.rgb.push_back(static_cast<std::uint8_t>(value % 256));
  return picture;
}

void put_big_endian(Bytes8& file, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i)
    file[at + i] = static_cast<std::uint8_t>(value >> (24 - 8 * i));
}

/// Only the bytes that a header check reads. The CRC is wrong: a decoder would refuse it later.
Bytes8 png_header(std::uint32_t width, std::uint32_t height) {
  Bytes8 file = write_png(paint(1, 1));
  put_big_endian(file, 16, width);
  put_big_endian(file, 20, height);
  return file;
}

TEST(DecodePicture, GivesThePixelsOfPillow) {
  ASSERT_GE(golden_pictures().size(), 100u);
  for (const GoldenPicture& one : golden_pictures()) {
    SCOPED_TRACE(one.name);
    const Result<Picture> decoded = decode_picture(one.file);
    ASSERT_TRUE(decoded) << decoded.refusal().reason;
    EXPECT_EQ(decoded.value().width, one.picture.width);
    EXPECT_EQ(decoded.value().height, one.picture.height);
    int largest = 0;
    ASSERT_EQ(decoded.value().rgb.size(), one.picture.rgb.size());
    for (std::size_t i = 0; i < one.picture.rgb.size(); ++i)
      largest = std::max(largest, std::abs(decoded.value().rgb[i] - one.picture.rgb[i]));
    EXPECT_EQ(largest, 0);
  }
}

TEST(ReadPictureSize, EqualsTheDecodedSize) {
  for (const GoldenPicture& one : golden_pictures()) {
    SCOPED_TRACE(one.name);
    const PictureSize expected{one.picture.height, one.picture.width};
    EXPECT_EQ(read_picture_size(one.file).value(), expected);
  }
}

TEST(ReadPictureSize, AsksForMoreWhenTheHeaderIsCut) {
  const Bytes8& jpeg = find_picture("jpeg_orientation_6").file;
  EXPECT_EQ(read_picture_size(std::span(jpeg).first(30)).refusal().code, "header_cut");
  const Bytes8 png = write_png(paint(3, 3));
  EXPECT_EQ(read_picture_size(std::span(png).first(20)).refusal().code, "header_cut");
}

TEST(DecodePicture, ReadsTheFormatFromTheFirstBytes) {
  const std::string text = "a text that is no picture";
  const auto other = decode_picture(Bytes8(text.begin(), text.end()));
  EXPECT_EQ(other.refusal().code, "unknown_format");
  EXPECT_THAT(other.refusal().reason,
              HasSubstr("begins with \"a text t\"; JPEG, PNG, WebP, GIF and BMP are read"));
  EXPECT_THAT(decode_picture({}).refusal().reason, HasSubstr("empty"));
}

TEST(DecodePicture, NamesAFormatThatIsNotReadAndTheWayOn) {
  const std::vector<std::pair<std::string, std::string>> files{
      {"TIFF", std::string("II*\0\x08\0\0\0", 8)},
      {"AVIF", std::string("\0\0\0\x1c"
                           "ftypavif",
                           12)}};
  for (const auto& [name, bytes] : files) {
    const Bytes8 file(bytes.begin(), bytes.end());
    const Refusal refusal = read_picture_size(file).refusal();
    EXPECT_EQ(refusal.code, "unknown_format");
    EXPECT_THAT(refusal.reason,
                HasSubstr("file is " + name + ", and JPEG, PNG, WebP, GIF and BMP are read"));
    EXPECT_THAT(refusal.reason, HasSubstr("`mogrify -format png FILE`"));
    EXPECT_EQ(decode_picture(file).refusal().reason, refusal.reason);
  }
}

TEST(DecodePicture, RefusesSizesBeforeDecoding) {
  const auto refusal = [](std::uint32_t width, std::uint32_t height) {
    return decode_picture(png_header(width, height)).refusal();
  };
  EXPECT_EQ(refusal(40000, 3).code, "too_large");
  EXPECT_THAT(refusal(40000, 3).reason, HasSubstr("40000 x 3, limit 32768 pixels a side"));
  EXPECT_EQ(refusal(20000, 20000).code, "too_large");
  EXPECT_THAT(refusal(20000, 20000).reason, HasSubstr("limit 67108864 pixels; no key raises it"));
  EXPECT_THAT(refusal(20000, 20000).reason, HasSubstr("`mogrify -resize '67108864@>' FILE`"));
  EXPECT_THAT(refusal(40000, 3).reason, HasSubstr("`mogrify -resize '32768x32768>' FILE`"));
  EXPECT_EQ(refusal(1, 201).code, "bad_aspect");
  EXPECT_THAT(refusal(1, 201).reason, HasSubstr("1 x 201, limit 200 : 1"));
  EXPECT_EQ(refusal(0, 0).code, "empty_picture");
  EXPECT_EQ(refusal(0xffffffff, 1).code, "too_large");
}

TEST(DecodePicture, RefusesAPngThatPromisesMoreThanItHolds) {
  Bytes8 file = png_header(8000, 8000);
  const auto decoded = decode_picture(file);
  EXPECT_EQ(decoded.refusal().code, "png_damaged");
  EXPECT_THAT(decoded.refusal().reason,
              HasSubstr(str("8000 x 8000 pixels cannot come out of ", file.size(), " bytes")));
  file[25] = 5;
  EXPECT_THAT(decode_picture(file).refusal().reason, HasSubstr("colour type 5"));
  // The max that deflate can reach is allowed: one colour, a thousand bytes of pixels per byte.
  const Picture plain{.width = 3000, .height = 2000, .rgb = Bytes8(std::size_t{18000000}, 7)};
  const Bytes8 small = write_png(plain);
  EXPECT_LT(small.size(), 40000u);
  EXPECT_EQ(decode_picture(small).value().rgb, plain.rgb);
}

TEST(DecodePicture, RefusesATruncatedJpegAtEveryLength) {
  const Bytes8 whole = write_jpeg(paint(40, 24), 80);
  for (std::size_t length = 0; length + 2 < whole.size(); length += 7) {
    SCOPED_TRACE(length);
    const auto decoded = decode_picture(std::span(whole).first(length));
    ASSERT_FALSE(decoded);
    EXPECT_THAT(decoded.refusal().code,
                testing::AnyOf("jpeg_warning", "jpeg_damaged", "header_cut", "unknown_format"));
  }
  const auto cut = decode_picture(std::span(whole).first(whole.size() - 40));
  EXPECT_EQ(cut.refusal().code, "jpeg_warning");
  EXPECT_THAT(cut.refusal().reason, HasSubstr("Premature end of JPEG file"));
}

TEST(DecodePicture, RefusesAWrongCheckSumInAnyPngChunk) {
  const Bytes8 whole = find_picture("png_gamma_and_text").file;
  std::size_t chunks = 0;
  for (std::size_t at = 8; at + 12 <= whole.size();) {
    const std::size_t length =
        std::size_t{whole[at]} << 24 | whole[at + 1] << 16 | whole[at + 2] << 8 | whole[at + 3];
    Bytes8 damaged = whole;
    damaged[at + 8 + length] ^= 1;  // first byte of its CRC
    const auto decoded = decode_picture(damaged);
    ASSERT_FALSE(decoded) << "chunk at " << at;
    EXPECT_EQ(decoded.refusal().code, "png_crc") << decoded.refusal().reason;
    at += 12 + length;
    ++chunks;
  }
  EXPECT_EQ(chunks, 5u);
}

TEST(DecodePicture, RefusesATruncatedPngAtEveryLength) {
  const Bytes8 whole = write_png(paint(20, 10));
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(decode_picture(std::span(whole).first(length))) << length;
  EXPECT_TRUE(decode_picture(whole));
}

TEST(DecodePicture, RefusesAPaletteImageWithoutPalette) {
  Bytes8 file = find_picture("png_colour_3_depth_8").file;
  const std::string name = "PLTE";
  const auto at = std::search(file.begin(), file.end(), name.begin(), name.end());
  const auto begin = at - 4;
  file.erase(begin, begin + 12 + 768);
  const auto decoded = decode_picture(file);
  EXPECT_EQ(decoded.refusal().code, "png_damaged");
  EXPECT_THAT(decoded.refusal().reason, HasSubstr("PLTE"));
}

/// A legal progressive JPEG of one black 8 x 8 block that refines each of `coefficients` AC terms
/// of three components bit by bit: 4 scans a term.
Bytes8 write_many_scans(int coefficients) {
  Bytes8 file{0xff, 0xd8, 0xff, 0xdb, 0, 67, 0};
  file.insert(file.end(), 64, 1);  // quantisation table
  const Bytes8 frame{0xff, 0xc2, 0, 17, 8, 0, 8, 0, 8, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0};
  file.insert(file.end(), frame.begin(), frame.end());
  for (const std::uint8_t table : Bytes8{0x00, 0x10}) {  // one code of one bit, for symbol 0
    const Bytes8 head{0xff, 0xc4, 0, 20, table, 1};
    file.insert(file.end(), head.begin(), head.end());
    file.insert(file.end(), 16, 0);  // no longer codes, then the symbol
  }
  const Bytes8 dc{0xff, 0xda, 0, 12, 3, 1, 0, 2, 0, 3, 0, 0, 0, 0, 0x1f};
  file.insert(file.end(), dc.begin(), dc.end());
  for (std::uint8_t component = 1; component <= 3; ++component)
    for (int term = 1; term <= coefficients; ++term)
      for (const std::uint8_t bits : Bytes8{0x03, 0x32, 0x21, 0x10}) {
        const auto at = static_cast<std::uint8_t>(term);
        const Bytes8 ac{0xff, 0xda, 0, 8, 1, component, 0, at, at, bits, 0x7f};
        file.insert(file.end(), ac.begin(), ac.end());
      }
  file.insert(file.end(), {0xff, 0xd9});
  return file;
}

TEST(DecodePicture, RefusesAProgressiveJpegWithHundredsOfScans) {
  const auto few = decode_picture(write_many_scans(10));  // 121 scans
  ASSERT_TRUE(few) << few.refusal().reason;
  EXPECT_EQ(few.value().width, 8);
  const auto many = decode_picture(write_many_scans(63));  // 757 scans
  ASSERT_FALSE(many);
  EXPECT_EQ(many.refusal().code, "jpeg_damaged");
  EXPECT_THAT(many.refusal().reason, HasSubstr("more than 500 scans"));
}

/// Changes the frame header of a baseline JPEG, which begins at the first SOF0.
Bytes8 change_frame(std::uint8_t marker, std::uint8_t bits, int width, int height) {
  Bytes8 file = write_jpeg(paint(16, 16), 80);
  const Bytes8 start{0xff, 0xc0};
  const auto at = std::search(file.begin(), file.end(), start.begin(), start.end());
  at[1] = marker;
  at[4] = bits;
  at[5] = static_cast<std::uint8_t>(height >> 8);
  at[6] = static_cast<std::uint8_t>(height);
  at[7] = static_cast<std::uint8_t>(width >> 8);
  at[8] = static_cast<std::uint8_t>(width);
  return file;
}

TEST(DecodePicture, RefusesJpegsOfStrangeFrames) {
  const auto refusal = [](const Bytes8& file) {
    const auto decoded = decode_picture(file);
    return decoded ? Refusal{"decoded", ""} : decoded.refusal();
  };
  ASSERT_EQ(refusal(change_frame(0xc0, 8, 16, 16)).code, "decoded");
  EXPECT_EQ(refusal(change_frame(0xc0, 8, 1, 65500)).code, "too_large");
  EXPECT_THAT(refusal(change_frame(0xc0, 8, 1, 65500)).reason, HasSubstr("1 x 65500, limit 32768"));
  EXPECT_EQ(refusal(change_frame(0xc0, 8, 30000, 30000)).code, "too_large");
  EXPECT_EQ(refusal(change_frame(0xc0, 8, 0, 16)).code, "empty_picture");
  EXPECT_EQ(refusal(change_frame(0xc0, 12, 16, 16)).code, "jpeg_damaged");
  EXPECT_THAT(refusal(change_frame(0xc0, 12, 16, 16)).reason, HasSubstr("precision 12"));
  EXPECT_EQ(refusal(change_frame(0xc3, 8, 16, 16)).code, "jpeg_damaged");  // lossless
  EXPECT_THAT(refusal(change_frame(0xc9, 8, 16, 16)).code,  // arithmetic coding that is none
              testing::AnyOf("jpeg_damaged", "jpeg_warning"));
}

std::uint32_t crc_of(std::span<const std::uint8_t> bytes) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320U : 0);
  }
  return ~crc;
}

/// Puts chunks behind the header of a PNG.
void insert_chunks(Bytes8& file, const std::string& name, const Bytes8& body, int times) {
  Bytes8 chunk(4);
  put_big_endian(chunk, 0, static_cast<std::uint32_t>(body.size()));
  chunk.insert(chunk.end(), name.begin(), name.end());
  chunk.insert(chunk.end(), body.begin(), body.end());
  const std::uint32_t crc = crc_of(std::span(chunk).subspan(4));
  chunk.resize(chunk.size() + 4);
  put_big_endian(chunk, chunk.size() - 4, crc);
  constexpr std::ptrdiff_t kAfterHeader = 33;
  for (; times > 0; --times) file.insert(file.begin() + kAfterHeader, chunk.begin(), chunk.end());
}

TEST(DecodePicture, LeavesAncillaryChunksOfAPngUnread) {
  const Picture picture = paint(20, 10);
  const Bytes8 junk(3000, 'x');  // as deflated text or profile it would be damaged
  for (const char* name :
       {"zTXt", "iTXt", "tEXt", "iCCP", "eXIf", "sPLT", "acTL", "fcTL", "fdAT"}) {
    Bytes8 file = write_png(picture);
    insert_chunks(file, name, junk, 1);
    const auto decoded = decode_picture(file);
    ASSERT_TRUE(decoded) << name << ": " << decoded.refusal().reason;
    EXPECT_EQ(decoded.value().rgb, picture.rgb) << name;
  }
  Bytes8 many = write_png(picture);
  insert_chunks(many, "zTXt", Bytes8(8, 'x'), 20000);
  EXPECT_TRUE(decode_picture(many));
  Bytes8 critical = write_png(picture);
  insert_chunks(critical, "XYZW", junk, 1);
  EXPECT_EQ(decode_picture(critical).refusal().code, "png_damaged");
}

TEST(WritePng, IsReadBackExactly) {
  const Picture picture = paint(31, 19);
  const Picture again = decode_picture(write_png(picture)).value();
  EXPECT_EQ(again.width, 31);
  EXPECT_EQ(again.height, 19);
  EXPECT_EQ(again.rgb, picture.rgb);
  EXPECT_EQ(write_png(picture), write_png(picture));
}

TEST(WritePng, RefusesAPictureWithoutItsPixels) {
  EXPECT_THROW((void)write_png({.width = 2, .height = 2, .rgb = Bytes8(11)}), Error);
}

/// Flips, cuts and repeats bytes of valid files: decoding always gives a picture or a refusal.
TEST(DecodePicture, SurvivesDamagedFiles) {
  std::vector<Bytes8> corpus;
  for (const GoldenPicture& one : golden_pictures()) corpus.push_back(one.file);
  int accepted = 0;
  for (std::uint64_t round = 0; round < 4000; ++round) {
    SCOPED_TRACE(str("round ", round));
    RandomStream random(17, "damage", round);
    Bytes8 file = random.pick(std::span(corpus));
    for (std::uint64_t flips = 1 + random.below(6); flips > 0; --flips)
      file[random.below(file.size())] ^= static_cast<std::uint8_t>(1u << random.below(8));
    if (random.below(4) == 0) file.resize(random.below(file.size()));
    const auto size = read_picture_size(file, {.max_pixels = 1 << 20});
    const auto decoded = decode_picture(file, {.max_pixels = 1 << 20});
    if (!decoded) {
      EXPECT_FALSE(decoded.refusal().code.empty());
      continue;
    }
    ++accepted;
    ASSERT_TRUE(size);
    EXPECT_EQ(size.value(), (PictureSize{decoded.value().height, decoded.value().width}));
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, 4000);
}

TEST(DecodeDataUrl, TakesTheBytes) {
  for (const std::string bytes : {"", "a", "ab", "abc", "abcd", "\xff\x00\x7f"}) {
    const auto decoded = decode_data_url("data:image/png;base64," + encode_base64(bytes));
    EXPECT_EQ(decoded.value(), Bytes8(bytes.begin(), bytes.end()));
  }
  EXPECT_EQ(encode_base64("Man"), "TWFu");
  EXPECT_EQ(encode_base64("Ma"), "TWE=");
  EXPECT_EQ(encode_base64("M"), "TQ==");
}

TEST(DecodeDataUrl, RefusesWhatIsNotABase64Image) {
  const auto reason = [](const char* url) { return decode_data_url(url).refusal().reason; };
  EXPECT_THAT(reason("data:text/html;base64,AAAA"), HasSubstr("text/html"));
  EXPECT_THAT(reason("data:image/png,AAAA"), HasSubstr("expected data:image/...;base64,"));
  EXPECT_THAT(reason("data:image/png;base64,AAA"), HasSubstr("base64 with padding"));
  EXPECT_THAT(reason("data:image/png;base64,A=AA"), HasSubstr("base64 with padding"));
  EXPECT_THAT(reason("data:image/png;base64,AA A"), HasSubstr("base64 with padding"));
  EXPECT_EQ(decode_data_url("data:").refusal().code, "bad_data_url");
}

}  // namespace
}  // namespace tributary::data
