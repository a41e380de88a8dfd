#include "core/file/given_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/handle.h"

namespace tributary {
namespace {

using Descriptor = Handle<int, -1, [](int file) { ::close(file); }>;

constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 20;

}  // namespace

std::string read_given_file(const std::string& path, std::uint64_t most_bytes, ErrorParts parts,
                            std::source_location raised_at) {
  parts.where = path;
  const auto refuse = [&](const std::string& found, const char* fix) {
    parts.found = found;
    if (parts.fix.empty()) parts.fix = fix;
    raise(Fault::kInput, parts, raised_at);
  };
  const auto refuse_by_system = [&](int reason) {
    refuse(std::strerror(reason), reason == ENOENT || reason == ENOTDIR
                                      ? "correct the path, or make the file"
                                      : "make the file readable");
  };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) refuse_by_system(errno);
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) refuse_by_system(errno);
  if (S_ISDIR(facts.st_mode)) refuse("a directory", "name a file in it");

  std::string text;
  for (std::uint64_t have = 0; have <= most_bytes;) {
    text.resize(have + std::min(kBlockBytes, most_bytes + 1 - have));
    const ssize_t got = ::read(file.get(), text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse_by_system(errno);
    have += static_cast<std::uint64_t>(got);
    text.resize(have);
    if (got == 0) break;
  }
  return text;
}

}  // namespace tributary
