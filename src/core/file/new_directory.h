#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/file/file_system.h"

namespace tributary {

/// Writes one file whole and syncs it.
void write_text_file(FileSystem& files, const std::string& path, std::string_view text);

/// Makes a directory that `fill` writes under a passing name; it appears by one rename, whole.
///
/// errors: Fault::kInput when it exists; Fault::kResource when the disk refuses. Then, and when
///         `fill` throws, nothing is left behind
void write_new_directory(FileSystem& files, const std::string& directory,
                         const std::function<void(const std::string& part)>& fill);

}  // namespace tributary
