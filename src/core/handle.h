#pragma once

#include <unistd.h>
#include <utility>

namespace tributary {

/// Owns one C handle: moves, and closes once. kNone is the value that owns nothing.
template <class T, auto kNone, auto Close>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T raw) : raw_(raw) {}
  Handle(Handle&& other) noexcept : raw_(std::exchange(other.raw_, kNone)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      raw_ = std::exchange(other.raw_, kNone);
    }
    return *this;
  }
  ~Handle() { reset(); }

  [[nodiscard]] T get() const { return raw_; }
  explicit operator bool() const { return raw_ != kNone; }
  void reset() {
    if (raw_ != kNone) Close(std::exchange(raw_, kNone));
  }

 private:
  T raw_ = kNone;
};

inline int close_descriptor(int descriptor) { return ::close(descriptor); }
/// An open file, socket or other descriptor.
using Descriptor = Handle<int, -1, close_descriptor>;

}  // namespace tributary
