#pragma once

#include <cstdint>
#include <memory>

namespace tributary::train {

/// Counts the bytes of tensors while it lives, by the allocations of this thread: tensors that
/// exist before do not count.
class LiveBytes {
 public:
  LiveBytes();
  ~LiveBytes();
  LiveBytes(const LiveBytes&) = delete;
  LiveBytes& operator=(const LiveBytes&) = delete;

  /// Counting makes every allocation slower: not while passes are timed.
  void count(bool counts);
  [[nodiscard]] std::int64_t now() const;
  /// The max since construction or the last call.
  [[nodiscard]] std::int64_t take_peak();
  /// The max since construction.
  [[nodiscard]] std::int64_t peak() const;

 private:
  class Reporter;
  class Guard;
  std::shared_ptr<Reporter> reporter_;
  std::unique_ptr<Guard> guard_;  // null: does not count
};

}  // namespace tributary::train
