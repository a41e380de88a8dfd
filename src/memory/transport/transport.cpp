#include "memory/transport/transport.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/epoll.h>

#include "core/error.h"

namespace tributary::memory {

void check_buffer(std::span<const std::byte> into, const ObjectHandle& handle) {
  TRIB_CHECK(into.size() == handle.fields.bytes && !into.empty(),
             .what = "memory: buffer of a GET has another size than the object",
             .found = str(into.size(), " bytes"), .expected = str(handle.fields.bytes, " bytes"));
}

void watch(int epoll, int descriptor) {
  epoll_event event = {.events = EPOLLIN, .data = {.fd = descriptor}};
  TRIB_CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0,
             .what = "memory: engine cannot be watched", .found = std::strerror(errno));
}

std::size_t hand_over(std::deque<Completion>& events, std::span<Completion> out) {
  const std::size_t count = std::min(out.size(), events.size());
  const auto last = events.begin() + static_cast<std::ptrdiff_t>(count);
  std::move(events.begin(), last, out.begin());
  events.erase(events.begin(), last);
  return count;
}

}  // namespace tributary::memory
