#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "core/error.h"
#include "core/file/safetensors.h"
#include "core/handle.h"

namespace tributary {
namespace {

using FileDescriptor = Handle<int, -1, [](int file) { ::close(file); }>;

[[noreturn]] void fail(std::string_view call, const std::string& path) {
  TRIB_RAISE(Fault::kResource, .what = str("safetensors: ", call, " fails"), .where = path,
             .found = std::generic_category().message(errno));
}

}  // namespace

MappedSafetensors::MappedSafetensors(const std::string& path) : path_(path) {
  header_ = read_safetensors_header(InputFile(real_file_system(), path));
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) fail("open", path);
  void* map = ::mmap(nullptr, header_.file_bytes, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (map == MAP_FAILED) fail("mmap", path);
  map_ = static_cast<const std::byte*>(map);
}

MappedSafetensors::~MappedSafetensors() {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): munmap takes what mmap gave
  if (map_ != nullptr) ::munmap(const_cast<std::byte*>(map_), header_.file_bytes);
}

MappedSafetensors::MappedSafetensors(MappedSafetensors&& other) noexcept
    : path_(std::move(other.path_)),
      header_(std::move(other.header_)),
      map_(std::exchange(other.map_, nullptr)) {}

std::span<const std::byte> MappedSafetensors::bytes(const StoredTensor& tensor) const {
  return {map_ + tensor.begin, map_ + tensor.end};
}

}  // namespace tributary
