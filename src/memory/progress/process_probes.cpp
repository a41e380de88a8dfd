#include "memory/progress/process_probes.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tributary::memory {
namespace {

constexpr Nanoseconds kProbeTime{1'000'000'000}, kProbeWait{10'000'000},
    kLongestProbeWait{100'000'000};

}  // namespace

void ProcessProbes::start(const LinkBroken& link, const std::string& endpoint, TimePoint now) {
  const Result<Endpoint> parsed = parse_endpoint(endpoint);
  if (!parsed) return;
  probes_.push_back({.link = link,
                     .endpoint = parsed.value(),
                     .end = now + kProbeTime,
                     .next = now,
                     .wait = kProbeWait,
                     .socket = {}});
}

/// Connects, or looks at how far the connection is.
ProcessProbes::Answer ProcessProbes::ask(Probe& probe) {
  if (!probe.socket) {
    Result<Descriptor> socket = start_connecting(probe.endpoint);
    if (!socket) return socket.refusal().code == "nobody" ? Answer::kRefused : Answer::kNotRefused;
    probe.socket = std::move(socket).value();
  }
  const std::optional<int> failure = connection_failure(probe.socket);
  if (!failure) return Answer::kNone;
  return *failure == ECONNREFUSED ? Answer::kRefused : Answer::kNotRefused;
}

void ProcessProbes::poll(TimePoint now, const std::function<void(const MemberLost&)>& tell) {
  std::vector<MemberLost> ended;
  std::erase_if(probes_, [&](Probe& probe) {
    if (now < probe.next) return false;
    switch (ask(probe)) {
      case Answer::kRefused:
        ended.push_back({probe.link.process, probe.link.incarnation});
        return true;
      case Answer::kNotRefused:
        probe.socket = {};
        probe.next =
            std::min(now + std::exchange(probe.wait, std::min(probe.wait * 2, kLongestProbeWait)),
                     probe.end);
        break;
      case Answer::kNone:
        break;
    }
    return now >= probe.end;
  });
  for (const MemberLost& each : ended) tell(each);
}

}  // namespace tributary::memory
