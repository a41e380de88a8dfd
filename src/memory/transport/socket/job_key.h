#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tributary::memory {

using Mac = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 32>;

/// The secret that the processes of one job share. It proves who belongs to the job; it encrypts
/// nothing.
class JobKey {
 public:
  static constexpr std::size_t kBytes = 32;

  explicit JobKey(std::span<const std::byte, kBytes> secret);
  JobKey(const JobKey&) = default;
  JobKey& operator=(const JobKey&) = default;
  ~JobKey();

  /// HMAC-SHA256 of the label followed by the pieces, in their order. Labels keep a message of one
  /// direction from being sent back as one of the other.
  ///
  /// source: RFC 2104, by OpenSSL
  [[nodiscard]] Mac sign(std::string_view label,
                         std::initializer_list<std::span<const std::byte>> pieces) const;

 private:
  std::array<std::byte, kBytes> secret_;
};

/// Reads the key of a job from a file that only its owner may read.
///
/// errors: Fault::kInput when others may read or write the file, it belongs to another user, is no
///         plain file, or has not exactly 32 bytes
[[nodiscard]] JobKey read_job_key(const std::string& path);
/// As read_job_key, from a descriptor that a launcher passed on; reads it to its end.
[[nodiscard]] JobKey read_job_key(int descriptor);

/// Compares in a time that does not depend on where they differ.
[[nodiscard]] bool are_equal(const Mac& one, const Mac& other);

/// 32 bytes that nobody can predict.
///
/// errors: Fault::kResource when the system has none
[[nodiscard]] Nonce draw_nonce();

}  // namespace tributary::memory
