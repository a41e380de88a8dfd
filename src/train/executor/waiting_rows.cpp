#include "train/executor/waiting_rows.h"

#include <utility>

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "core/error.h"

namespace tributary::train {
namespace {

enum class Way { kToHost, kToDevice };

/// The stream of one way: the same in each call, so that the pool's others stay free.
c10::Stream stream_of(c10::Device device, Way way) {
  static thread_local std::optional<c10::Stream> to_host, to_device;
  std::optional<c10::Stream>& own = way == Way::kToHost ? to_host : to_device;
  if (!own || own->device() != device)
    own = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  return *own;
}

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/// Lets one stream wait for what another one has been given so far.
void follow(const c10::Stream& stream, const c10::Stream& other) {
  c10::Event event(other.device_type());
  event.record(other);
  event.block(stream);
}

}  // namespace

void WaitingRows::keep(const at::Tensor& rows) {
  if (rows.is_cpu()) {
    // A copy: a part of a message would keep all of it.
    rows_.push_back({.held = rows.clone(), .device = rows.device(), .is_back = true});
    return;
  }
  const c10::Stream stream = stream_of(rows.device(), Way::kToHost);
  follow(stream, current_stream(rows.device()));
  const c10::StreamGuard guard(stream);
  Rows kept{.held = at::empty(rows.sizes(), rows.options().device(at::kCPU).pinned_memory(true)),
            .device = rows.device()};
  kept.held.copy_(rows, /*non_blocking=*/true);
  rows.record_stream(stream);
  kept.moved.emplace(stream.device_type());
  kept.moved->record(stream);
  rows_.push_back(std::move(kept));
}

void WaitingRows::fetch(std::size_t number) {
  if (number >= rows_.size() || rows_[number].is_back || !rows_[number].held.defined()) return;
  Rows& rows = rows_[number];
  const c10::Stream stream = stream_of(rows.device, Way::kToDevice);
  rows.moved->block(stream);
  const c10::StreamGuard guard(stream);
  rows.held = rows.held.to(rows.device, /*non_blocking=*/true);
  rows.moved->record(stream);
  rows.is_back = true;
}

at::Tensor WaitingRows::take(std::size_t number) {
  TRIB_CHECK(number < rows_.size() && rows_[number].held.defined(),
             .what = "train: rows do not wait here", .found = str(number),
             .expected = str("one of the ", rows_.size(), " that were kept, once"));
  fetch(number);
  Rows& rows = rows_[number];
  at::Tensor taken = std::exchange(rows.held, at::Tensor());
  if (rows.moved) {
    const c10::Stream stream = current_stream(rows.device);
    rows.moved->block(stream);
    taken.record_stream(stream);
  }
  return taken;
}

}  // namespace tributary::train
