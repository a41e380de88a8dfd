#include "data/loader/record_media.h"

#include "core/error.h"
#include "data/decode/data_url.h"
#include "data/decode/decode_picture.h"
#include "data/record/media_files.h"
#include "data/record/record.h"

namespace tributary::data {
namespace {

constexpr std::size_t kHeaderBytes = std::size_t{64} << 10;  // EXIF previews fit in most files

/// Where the file of a medium lies: in the container if it holds one of that name.
const MediaFiles& files_of(const Record& record, const std::string& image) {
  if (record.inside != nullptr && record.inside->holds(image)) return *record.inside;
  TRIB_CHECK(record.folder != nullptr, .what = "data: record with image paths has no folder",
             .where = record.key);
  return *record.folder;
}

}  // namespace

Refusal name_medium(const Refusal& refusal, const std::string& name) {
  return {refusal.code, str(escaped(name.substr(0, 120)), ": ", refusal.reason)};
}

Result<std::vector<std::uint8_t>> read_media_file(const Record& record, const std::string& image) {
  if (is_data_url(image)) return decode_data_url(image);
  return files_of(record, image).read(image);
}

Result<Sound> read_sound(const Record& record, const std::string& sound) {
  const auto file = read_media_file(record, sound);
  if (!file) return file.refusal();
  Result<Sound> decoded = decode_sound(file.value());
  if (!decoded) return name_medium(decoded.refusal(), sound);
  return decoded;
}

Result<std::vector<std::uint8_t>> read_picture_beginning(const Record& record,
                                                         const std::string& image,
                                                         std::size_t max) {
  return files_of(record, image).read_beginning(image, max);
}

Result<Picture> decode_named_picture(const Record& record, const std::string& image) {
  const auto file = read_media_file(record, image);
  if (!file) return file.refusal();
  Result<Picture> picture = decode_picture(file.value());
  if (!picture) return name_medium(picture.refusal(), image);
  return picture;
}

Result<PictureSize> measure_picture(const Record& record, const std::string& image) {
  if (!is_data_url(image)) {
    const auto beginning = read_picture_beginning(record, image, kHeaderBytes);
    if (!beginning) return beginning.refusal();
    const auto size = read_picture_size(beginning.value());
    if (size) return size;
    const bool whole = beginning.value().size() < kHeaderBytes;
    if (whole || size.refusal().code != "header_cut") return name_medium(size.refusal(), image);
  }
  const auto file = read_media_file(record, image);
  if (!file) return file.refusal();
  const auto size = read_picture_size(file.value());
  if (!size) return name_medium(size.refusal(), image);
  return size;
}

}  // namespace tributary::data
