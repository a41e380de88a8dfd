#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

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

/// Reads the last `count` whole lines, or fewer where they fill more than a mebibyte; a missing
/// file has none.
///
/// errors: Fault::kInput for a line that is no JSON object
[[nodiscard]] std::vector<Json> last_lines(const std::string& path, std::size_t count);

/// A whole number of a line; `otherwise` where the line has no such field. `where`: file and line.
///
/// errors: Fault::kInput when it is something else
[[nodiscard]] std::int64_t whole_number(const Json& line, const char* field, std::int64_t otherwise,
                                        const std::string& where);

/// Whether a line stays; `where` names its file and number.
using LineRule = std::function<bool(const Json& line, const std::string& where)>;

/// Drops every line that `keep` refuses, and a torn last line, by one rename; a missing file stays
/// missing. Returns the number of whole lines dropped.
///
/// errors: Fault::kInput naming file and line for a whole line that is no JSON object;
/// Fault::kResource
std::int64_t keep_lines(const std::string& path, const LineRule& keep);

/// Drops every line whose `step` is above `last_step`. Returns their number.
std::int64_t cut_lines_after(const std::string& path, std::int64_t last_step);

}  // namespace tributary::train
