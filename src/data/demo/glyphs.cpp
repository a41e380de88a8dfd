#include "data/demo/glyphs.h"

#include <ft2build.h>
#include FT_FREETYPE_H
#include FT_OUTLINE_H

#include "core/error.h"
#include "core/handle.h"
#include "core/random.h"

namespace tributary::data {
namespace {

constexpr char kFirst = ' ';
constexpr char kLast = '~';
constexpr int kPiecesOfCurve = 4;
constexpr std::uint64_t kKnownDigest = 15464394023095335459U;

void close_library(FT_Library library) { FT_Done_FreeType(library); }
void close_face(FT_Face face) { FT_Done_Face(face); }

/// Divides and rounds to the nearest, halves away from zero.
std::int64_t divide(std::int64_t value, std::int64_t by) {
  return (value >= 0 ? value + by / 2 : value - by / 2) / by;
}

Place place_of(const FT_Vector* point) { return {point->x, point->y}; }

Outline& outline_of(void* user) { return *static_cast<Outline*>(user); }

int move_to(const FT_Vector* to, void* user) {
  outline_of(user).push_back({place_of(to)});
  return 0;
}

int line_to(const FT_Vector* to, void* user) {
  outline_of(user).back().push_back(place_of(to));
  return 0;
}

int conic_to(const FT_Vector* control, const FT_Vector* to, void* user) {
  std::vector<Place>& polygon = outline_of(user).back();
  const Place a = polygon.back();
  const Place b = place_of(control);
  const Place c = place_of(to);
  constexpr std::int64_t n = kPiecesOfCurve;
  for (std::int64_t k = 1; k <= n; ++k) {
    const auto mix = [&](std::int64_t from, std::int64_t over, std::int64_t end) {
      return divide((n - k) * (n - k) * from + 2 * k * (n - k) * over + k * k * end, n * n);
    };
    polygon.push_back({mix(a.x, b.x, c.x), mix(a.y, b.y, c.y)});
  }
  return 0;
}

int cubic_to(const FT_Vector*, const FT_Vector*, const FT_Vector*, void*) {
  return 1;  // a TrueType font has none
}

}  // namespace

Glyphs::Glyphs(const std::string& file) {
  FT_Library raw_library = nullptr;
  TRIB_CHECK(FT_Init_FreeType(&raw_library) == 0, .what = "data: FreeType does not start");
  const Handle<FT_Library, nullptr, &close_library> library(raw_library);
  FT_Face raw_face = nullptr;
  const FT_Error failed = FT_New_Face(library.get(), file.c_str(), 0, &raw_face);
  if (failed != 0)
    TRIB_RAISE(Fault::kResource, .what = "data: font of the demo cannot be read", .where = file,
               .found = str("FreeType error ", failed), .expected = "a TrueType font",
               .fix = "apt-get install fonts-dejavu-core");
  const Handle<FT_Face, nullptr, &close_face> face(raw_face);
  const FT_Outline_Funcs pens{move_to, line_to, conic_to, cubic_to, 0, 0};
  for (char letter = kFirst; letter <= kLast; ++letter) {
    FT_Error error = FT_Load_Char(face.get(), static_cast<FT_ULong>(letter), FT_LOAD_NO_SCALE);
    if (error == 0)
      error = FT_Outline_Decompose(&face.get()->glyph->outline, &pens, &outlines_[letter]);
    if (error != 0)
      TRIB_RAISE(Fault::kResource, .what = "data: font of the demo lacks a glyph", .where = file,
                 .found = str("'", letter, "', FreeType error ", error),
                 .fix = "apt-get install fonts-dejavu-core");
    advance_ = face.get()->glyph->advance.x;
  }
  if (digest() != kKnownDigest)
    TRIB_RAISE(Fault::kResource, .what = "data: font of the demo has other outlines", .where = file,
               .found = str("digest ", digest()),
               .expected = str("digest ", kKnownDigest, " (DejaVu Sans Mono Bold 2.37)"),
               .fix = "apt-get install --reinstall fonts-dejavu-core");
}

std::uint64_t Glyphs::digest() const {
  std::uint64_t digest = static_cast<std::uint64_t>(advance_);
  const auto add = [&](std::int64_t value) {
    digest = mix_bits(digest + static_cast<std::uint64_t>(value));
  };
  for (const Outline& outline : outlines_)
    for (const auto& polygon : outline) {
      add(static_cast<std::int64_t>(polygon.size()));
      for (const Place& place : polygon) {
        add(place.x);
        add(place.y);
      }
    }
  return digest;
}

void Glyphs::draw(Canvas& canvas, std::string_view text, Place left_of_baseline, int advance,
                  Colour colour) const {
  Outline line;
  std::int64_t left = left_of_baseline.x;
  for (const char letter : text) {
    TRIB_CHECK(letter >= kFirst && letter <= kLast, .what = "data: demo text is not ASCII",
               .found = escaped(text));
    for (std::vector<Place> polygon : outlines_[letter]) {
      for (Place& place : polygon)
        place = {left + divide(place.x * advance * kPixel, advance_),
                 left_of_baseline.y - divide(place.y * advance * kPixel, advance_)};
      line.push_back(std::move(polygon));
    }
    left += advance * kPixel;
  }
  canvas.fill(line, colour);
}

}  // namespace tributary::data
