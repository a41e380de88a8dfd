#include "train/run/json_lines.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unistd.h>
#include <utility>

#include "core/error.h"
#include "core/file/file_system.h"

namespace tributary::train {
namespace {

constexpr const char* kLineFix = "remove the line, or move the file away; the run needs neither";

}  // namespace

JsonLines::JsonLines(std::string path)
    : path_(std::move(path)),
      file_(open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)) {
  const bool is_link = file_ < 0 && errno == ELOOP;
  if (file_ < 0)
    TRIB_RAISE(Fault::kResource, .what = "train: file of the run cannot be opened", .where = path_,
               .found = is_link ? "a symbolic link" : std::strerror(errno),
               .fix = is_link ? "remove the link: what it points to must not change" : "");
}

JsonLines::~JsonLines() { close(file_); }

void JsonLines::append(const Json& object) {
  // Text in a prediction may hold a broken character: it is replaced, not refused.
  const std::string line =
      object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const ssize_t written = write(file_, line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size()))
    TRIB_RAISE(Fault::kResource, .what = "train: file of the run cannot be written", .where = path_,
               .found = written < 0 ? std::strerror(errno)
                                    : str(written, " of ", line.size(), " bytes written"));
}

namespace {

/// Parses one line of a file of the run, which another program may have changed.
Json parse_line(const std::string& line, const std::string& where) {
  Json json = parse_json(line, where);
  TRIB_REQUIRE(json.is_object(), .what = "train: line of a file of the run has another shape",
               .where = where, .found = json.type_name(), .expected = "an object", .fix = kLineFix);
  return json;
}

}  // namespace

std::vector<Json> last_lines(const std::string& path, std::size_t count) {
  constexpr std::uintmax_t kMaxBytes = std::uintmax_t{1} << 20;
  if (!std::filesystem::exists(path)) return {};
  const std::uintmax_t bytes = std::filesystem::file_size(path);
  std::ifstream in(path, std::ios::binary);
  if (bytes > kMaxBytes) in.seekg(static_cast<std::streamoff>(bytes - kMaxBytes));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line) && !in.eof();) lines.push_back(std::move(line));
  if (bytes > kMaxBytes && !lines.empty()) lines.erase(lines.begin());  // its beginning is missing
  if (lines.size() > count)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  std::vector<Json> objects;
  for (const std::string& line : lines) objects.push_back(parse_line(line, path));
  return objects;
}

std::int64_t whole_number(const Json& line, const char* field, std::int64_t otherwise,
                          const std::string& where) {
  const auto found = line.find(field);
  if (found == line.end()) return otherwise;
  TRIB_REQUIRE(found->is_number_integer(),
               .what = "train: line of a file of the run has another shape",
               .where = str(where, " ", field), .found = found->dump(),
               .expected = "a whole number", .fix = kLineFix);
  return found->get<std::int64_t>();
}

std::int64_t keep_lines(const std::string& path, const LineRule& keep) {
  if (!std::filesystem::exists(path)) return 0;
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::string kept;
  std::int64_t dropped = 0;
  std::int64_t number = 0;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const std::string where = str(path, ":", ++number);
    if (keep(parse_line(line, where), where))
      kept += line + "\n";
    else
      ++dropped;
  }
  if (kept.size() == text.size()) return 0;
  replace_file(real_file_system(), path, kept);
  return dropped;
}

std::int64_t cut_lines_after(const std::string& path, std::int64_t last_step) {
  return keep_lines(path, [last_step](const Json& line, const std::string& where) {
    return whole_number(line, "step", 0, where) <= last_step;
  });
}

}  // namespace tributary::train
