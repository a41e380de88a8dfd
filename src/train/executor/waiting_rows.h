#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

namespace tributary::train {

/// Rows of microbatches that wait in host memory until they are used. Bits stay the same.
///
/// Rows that the host computed wait where they are.
///
/// owns:   what it keeps
/// stream: copies run on streams of their own, beside the current one: those to the host wait for
///         what the current stream has been given, and the current stream waits for rows that come
///         back. The host waits for nothing
class WaitingRows {
 public:
  /// Begins to move rows to the host. Their numbers count up from 0.
  void keep(const at::Tensor& rows);
  [[nodiscard]] std::size_t count() const { return rows_.size(); }
  /// Begins to bring rows back; a number that is not kept is none.
  void fetch(std::size_t number);
  /// The rows, on their device again.
  [[nodiscard]] at::Tensor take(std::size_t number);

 private:
  struct Rows {
    at::Tensor held;  // on the host; on the device again after fetch()
    c10::Device device;
    std::optional<c10::Event> moved = {};  // the last copy
    bool is_back = false;
  };
  std::vector<Rows> rows_;
};

}  // namespace tributary::train
