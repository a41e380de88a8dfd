#pragma once

#include <cstddef>
#include <string>

#include "core/result.h"

namespace tributary::app {

/// Puts images into the page as data URLs, up to a number of bytes for the whole page.
class ImageEmbedder {
 public:
  /// Relative paths start at `directory`.
  ImageEmbedder(std::string directory, std::size_t most_bytes);

  /// The data URL of a PNG or JPEG file, or of a data URL that holds one.
  ///
  /// errors: Refusal saying why the picture cannot be shown
  [[nodiscard]] Result<std::string> embed(const std::string& image);

 private:
  std::string directory_;
  std::size_t bytes_left_;
};

}  // namespace tributary::app
