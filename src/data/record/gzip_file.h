#pragma once

#include <memory>

#include "data/record/byte_file.h"
#include "data/record/stored_file.h"

namespace tributary::data {

/// Whether the file begins as gzip files do.
[[nodiscard]] bool is_gzip(const StoredFile& file);

/// A gzip file of one or more members, read at any place: scan keeps the state of the decompressor
/// at places that lie 1 MiB or more apart, and read goes on from the nearest one before its place.
[[nodiscard]] std::unique_ptr<ByteFile> open_gzip(StoredFile file);

}  // namespace tributary::data
