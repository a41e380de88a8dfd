#pragma once

#include <memory>
#include <string>

#include "data/record/record_file.h"

namespace tributary::data {

/// Opens a table; each row is a record. Numbers, texts, lists and structs become JSON; bytes, and
/// structs `{bytes, path}` as `datasets` writes pictures, become names of pictures inside; a number
/// that the schema calls a class becomes the name of the class.
///
/// errors: Fault::kInput when the file is damaged or empty, or when this build has no Arrow
/// cost:   of Parquet, each read needs its whole row group; of those read last 256 MiB are kept.
///         Arrow files are mapped into memory and need none.
[[nodiscard]] std::unique_ptr<RecordFile> open_parquet(const std::string& path);
[[nodiscard]] std::unique_ptr<RecordFile> open_arrow(const std::string& path);

}  // namespace tributary::data
