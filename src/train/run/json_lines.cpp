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

namespace tributary::train {

JsonLines::JsonLines(std::string path)
    : path_(std::move(path)),
      file_(open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666)) {
  if (file_ < 0)
    TRIB_RAISE(Fault::kResource, .what = "train: file of the run cannot be opened", .where = path_,
               .found = std::strerror(errno));
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

std::vector<Json> last_lines(const std::string& path, std::size_t count) {
  constexpr std::uintmax_t kMostBytes = std::uintmax_t{1} << 20;
  if (!std::filesystem::exists(path)) return {};
  const std::uintmax_t bytes = std::filesystem::file_size(path);
  std::ifstream in(path, std::ios::binary);
  if (bytes > kMostBytes) in.seekg(static_cast<std::streamoff>(bytes - kMostBytes));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line) && !in.eof();) lines.push_back(std::move(line));
  if (bytes > kMostBytes && !lines.empty()) lines.erase(lines.begin());  // its beginning is missing
  if (lines.size() > count)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  std::vector<Json> objects;
  for (const std::string& line : lines) objects.push_back(parse_json(line, path));
  return objects;
}

std::int64_t keep_lines(const std::string& path, const std::function<bool(const Json&)>& keep) {
  if (!std::filesystem::exists(path)) return 0;
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::string kept;
  std::int64_t dropped = 0;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (keep(parse_json(line, path)))
      kept += line + "\n";
    else
      ++dropped;
  }
  if (kept.size() == text.size()) return 0;
  const std::string part = path + ".part";
  std::ofstream out(part, std::ios::binary);
  out << kept;
  out.close();
  if (!out)
    TRIB_RAISE(Fault::kResource, .what = "train: file of the run cannot be written", .where = part,
               .found = std::strerror(errno));
  std::filesystem::rename(part, path);
  return dropped;
}

std::int64_t cut_lines_after(const std::string& path, std::int64_t last_step) {
  return keep_lines(path, [last_step](const Json& line) {
    return line.value("step", std::int64_t{0}) <= last_step;
  });
}

}  // namespace tributary::train
