#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/result.h"

namespace tributary::data {

/// The files of pictures that records name: a folder, or what lies inside a container. Safe to use
/// from any thread.
class MediaFiles {
 public:
  virtual ~MediaFiles() = default;

  /// Whether it may hold a file of this name. A folder may hold any.
  [[nodiscard]] virtual bool holds(const std::string& path) const = 0;
  /// errors: Refusal `bad_path`, `path_escapes`, `missing_file`, `not_a_file`, `too_large`,
  ///         `read_failed`
  [[nodiscard]] virtual Result<std::vector<std::uint8_t>> read(const std::string& path) const = 0;
  /// Reads at most `max` bytes from the beginning.
  [[nodiscard]] virtual Result<std::vector<std::uint8_t>> read_beginning(const std::string& path,
                                                                         std::size_t max) const = 0;
};

}  // namespace tributary::data
