#include "data/record/byte_file.h"

#define XXH_INLINE_ALL
#include <cerrno>
#include <cstring>
#include <vector>
#include <xxhash.h>

#include "data/record/gzip_file.h"
#include "data/record/stored_file.h"

namespace tributary::data {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

class PlainFile final : public ByteFile {
 public:
  explicit PlainFile(StoredFile file) : file_(std::move(file)) {}

  std::string beginning(std::size_t max) const override {
    std::string text(max, '\0');
    text.resize(file_.read_block(text.data(), max, 0));
    return text;
  }

  void scan(const Use& use) override {
    XXH3_state_t hash;
    XXH3_64bits_reset(&hash);
    std::vector<char> block(kBlockBytes);
    std::int64_t at = 0;
    while (const std::size_t got = file_.read_block(block.data(), block.size(), at)) {
      XXH3_64bits_update(&hash, block.data(), got);
      use({block.data(), got});
      at += static_cast<std::int64_t>(got);
    }
    digest_ = digits_of(XXH3_64bits_digest(&hash));
  }

  Result<std::string> read(std::int64_t offset, std::size_t length) const override {
    if (auto changed = file_.refuse_change()) return *changed;
    std::string text(length, '\0');
    const std::int64_t got = file_.read_at(text.data(), length, offset);
    if (got != static_cast<std::int64_t>(length))
      return Refusal{"read_failed", got < 0 ? std::strerror(errno) : "file ends too early"};
    return text;
  }

  const std::string& path() const override { return file_.path(); }
  std::int64_t stored_bytes() const override { return file_.bytes(); }
  const std::string& digest() const override { return digest_; }

 private:
  StoredFile file_;
  std::string digest_;
};

}  // namespace

std::unique_ptr<ByteFile> open_bytes(const std::string& path) {
  StoredFile file(path);
  if (is_gzip(file)) return open_gzip(std::move(file));
  return std::make_unique<PlainFile>(std::move(file));
}

}  // namespace tributary::data
