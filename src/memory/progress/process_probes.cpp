#include "memory/progress/process_probes.h"

#include <cerrno>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

#include "memory/transport/socket/tcp_socket.h"

namespace tributary::memory {
namespace {

constexpr Nanoseconds kAnswerTime{1'000'000'000};

}  // namespace

void ProcessProbes::start(const LinkBroken& link, const std::string& endpoint, TimePoint now) {
  const Result<Endpoint> parsed = parse_endpoint(endpoint);
  if (!parsed) return;
  Result<Descriptor> socket = start_connecting(parsed.value());
  if (socket)
    probes_.push_back(
        {.socket = std::move(socket).value(), .link = link, .end = now + kAnswerTime});
  else if (socket.refusal().code == "nobody")
    ended_.push_back({link.process, link.incarnation});
}

void ProcessProbes::poll(TimePoint now, const std::function<void(const MemberLost&)>& tell) {
  std::erase_if(probes_, [&](const Probe& probe) {
    pollfd ready = {.fd = probe.socket.get(), .events = POLLOUT, .revents = 0};
    if (::poll(&ready, 1, 0) == 0) return now >= probe.end;
    int failure = 0;
    socklen_t size = sizeof failure;
    getsockopt(probe.socket.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
    if (failure == ECONNREFUSED) ended_.push_back({probe.link.process, probe.link.incarnation});
    return true;
  });
  for (const MemberLost& each : std::exchange(ended_, {})) tell(each);
}

}  // namespace tributary::memory
