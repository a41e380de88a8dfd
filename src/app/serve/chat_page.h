#pragma once

#include <span>
#include <string_view>

namespace tributary::app {

/// A file of the page at /.
struct PageFile {
  const char* path;
  const char* type;
  std::string_view content;
};

/// The files in `page/`, which the program carries as text.
[[nodiscard]] std::span<const PageFile> chat_page_files();

}  // namespace tributary::app
