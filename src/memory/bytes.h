#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace tributary::memory {

static_assert(std::endian::native == std::endian::little,
              "structures travel as they lie in memory");

/// A type whose bytes in memory are its bytes on the wire: no pointers, no padding.
template <class T>
concept WireType = std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>;

/// Appends values to a message.
class ByteWriter {
 public:
  template <WireType T>
  void put(const T& value) {
    put_bytes(std::as_bytes(std::span(&value, 1)));
  }
  void put_bytes(std::span<const std::byte> more) {
    bytes_.insert(bytes_.end(), more.begin(), more.end());
  }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Takes values from a message. A read beyond its end gives zeros and marks the reader as failed,
/// so that a parser checks once, at the end.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <WireType T>
  [[nodiscard]] T get() {
    T value{};
    const std::span<const std::byte> taken = get_bytes(sizeof(T));
    if (!taken.empty()) std::memcpy(&value, taken.data(), sizeof(T));
    return value;
  }
  /// Borrows the next `count` bytes of the message; empty when there are fewer.
  [[nodiscard]] std::span<const std::byte> get_bytes(std::size_t count) {
    if (count > left_.size()) {
      failed_ = true;
      left_ = {};
      return {};
    }
    const std::span<const std::byte> taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }
  /// Whether `count` items of `bytes` each can still follow; marks the reader as failed if not.
  /// Asked before memory is allocated for them.
  [[nodiscard]] bool holds(std::uint64_t count, std::size_t bytes) {
    failed_ = failed_ || count > left_.size() / bytes;
    return !failed_;
  }
  [[nodiscard]] bool failed() const { return failed_; }
  /// Whether every read was inside and nothing is left.
  [[nodiscard]] bool finished() const { return !failed_ && left_.empty(); }

 private:
  std::span<const std::byte> left_;
  bool failed_ = false;
};

}  // namespace tributary::memory
