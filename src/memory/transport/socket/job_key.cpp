#include "memory/transport/socket/job_key.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "core/error.h"
#include "core/handle.h"

namespace tributary::memory {
namespace {

constexpr const char* kFix = "write 32 random bytes to a file of your own with mode 0600";

JobKey read_secret(int descriptor, const std::string& where) {
  std::array<std::byte, JobKey::kBytes + 1> read{};  // one more, to notice a longer one
  std::size_t have = 0;
  while (have < read.size()) {
    const ssize_t count = ::read(descriptor, read.data() + have, read.size() - have);
    if (count < 0 && errno == EINTR) continue;
    TRIB_REQUIRE(count >= 0, .what = "memory: job key cannot be read", .where = where,
                 .found = std::strerror(errno));
    if (count == 0) break;
    have += static_cast<std::size_t>(count);
  }
  TRIB_REQUIRE(have == JobKey::kBytes, .what = "memory: job key has a wrong length", .where = where,
               .found = have > JobKey::kBytes ? "more than 32 bytes" : str(have, " bytes"),
               .expected = "32 bytes", .fix = kFix);
  const JobKey key{std::span(read).first<JobKey::kBytes>()};
  OPENSSL_cleanse(read.data(), read.size());
  return key;
}

}  // namespace

JobKey::JobKey(std::span<const std::byte, kBytes> secret) {
  std::ranges::copy(secret, secret_.begin());
}

JobKey::~JobKey() { OPENSSL_cleanse(secret_.data(), secret_.size()); }

Mac JobKey::sign(std::string_view label,
                 std::initializer_list<std::span<const std::byte>> pieces) const {
  std::vector<unsigned char> text(label.begin(), label.end());
  for (const std::span<const std::byte> piece : pieces)
    for (const std::byte byte : piece) text.push_back(std::to_integer<unsigned char>(byte));
  Mac mac{};
  unsigned int size = 0;
  const unsigned char* made =
      HMAC(EVP_sha256(), secret_.data(), static_cast<int>(secret_.size()), text.data(), text.size(),
           reinterpret_cast<unsigned char*>(mac.data()), &size);
  TRIB_CHECK(made != nullptr && size == mac.size(), .what = "memory: HMAC-SHA256 failed",
             .found = str(size, " bytes"), .expected = "32 bytes");
  return mac;
}

JobKey read_job_key(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  TRIB_REQUIRE(file, .what = "memory: job key cannot be opened", .where = path,
               .found = std::strerror(errno), .fix = kFix);
  struct stat status {};
  TRIB_REQUIRE(fstat(file.get(), &status) == 0, .what = "memory: job key cannot be examined",
               .where = path, .found = std::strerror(errno));
  TRIB_REQUIRE(S_ISREG(status.st_mode), .what = "memory: job key is no plain file", .where = path,
               .expected = "a file of 32 bytes", .fix = kFix);
  TRIB_REQUIRE(status.st_uid == geteuid(), .what = "memory: job key belongs to another user",
               .where = path, .found = str("user ", status.st_uid),
               .expected = str("user ", geteuid()), .fix = kFix);
  TRIB_REQUIRE((status.st_mode & 077) == 0, .what = "memory: job key is open to others",
               .where = path, .found = str("mode 0", std::oct, status.st_mode & 0777),
               .expected = "mode 0600", .fix = str("chmod 600 ", path));
  return read_secret(file.get(), path);
}

JobKey read_job_key(int descriptor) {
  return read_secret(descriptor, str("descriptor ", descriptor));
}

bool are_equal(const Mac& one, const Mac& other) {
  return CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

Nonce draw_nonce() {
  Nonce nonce{};
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) !=
      1)
    TRIB_RAISE(Fault::kResource, .what = "memory: the system gives no random bytes");
  return nonce;
}

}  // namespace tributary::memory
