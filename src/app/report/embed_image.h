#pragma once

#include <cstddef>
#include <string>

#include "core/result.h"

namespace tributary::app {

/// Turns images into data URLs for a page, up to a total of `max_bytes`.
class ImageEmbedder {
 public:
  /// directory: where relative paths start
  ImageEmbedder(std::string directory, std::size_t max_bytes);

  /// The data URL of a PNG or JPEG file; a data URL that holds one is checked and returned.
  ///
  /// errors: Refusal saying why the picture cannot be shown
  [[nodiscard]] Result<std::string> embed(const std::string& image);

 private:
  std::string directory_;
  std::size_t bytes_left_;
};

}  // namespace tributary::app
