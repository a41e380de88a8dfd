#pragma once

#include <cstdint>
#include <string>

#include "core/json.h"

namespace tributary::train {

/// A growing file of one JSON object a line; each line is written by one call, so that a reader or
/// a kill never sees more than the last one torn.
class JsonLines {
 public:
  /// Opens for appending; the file is made when it is not there.
  /// errors: Fault::kResource with the path and the system's word
  explicit JsonLines(std::string path);
  ~JsonLines();
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;

  void append(const Json& object);

 private:
  std::string path_;
  int file_;
};

/// Drops every line whose `step` is above `last_step`, and a torn last line; a missing file stays
/// missing.
void cut_lines_after(const std::string& path, std::int64_t last_step);

}  // namespace tributary::train
