#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/result.h"
#include "data/decode/sound_file.h"
#include "data/sample.h"

namespace tributary::data {

struct Record;

/// A refusal that names the file of a medium.
[[nodiscard]] Refusal name_medium(const Refusal& refusal, const std::string& name);

/// Reads the bytes of an image or sound from the container, the folder, or its data URL.
[[nodiscard]] Result<std::vector<std::uint8_t>> read_media_file(const Record& record,
                                                                const std::string& name);
/// Decodes a sound of a record.
[[nodiscard]] Result<Sound> read_sound(const Record& record, const std::string& sound);
/// Reads at most `max` bytes of the file of an image that is no data URL.
[[nodiscard]] Result<std::vector<std::uint8_t>> read_picture_beginning(const Record& record,
                                                                       const std::string& image,
                                                                       std::size_t max);
/// Decodes an image; a refusal names it.
[[nodiscard]] Result<Picture> decode_named_picture(const Record& record, const std::string& image);
/// Reads the size of an image from the header of its file.
[[nodiscard]] Result<PictureSize> measure_picture(const Record& record, const std::string& image);

}  // namespace tributary::data
