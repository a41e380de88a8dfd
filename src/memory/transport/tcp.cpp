#include "memory/transport/tcp.h"

#include <string>
#include <utility>

namespace tributary::memory {

void Tcp::listen(TcpListener listener) { links_.listen(std::move(listener.socket)); }

const TransportTraits& Tcp::traits() const {
  static const TransportTraits kTraits{.engine = Engine::kTcp,
                                       .name = "tcp",
                                       .reach = Reach::kNetwork,
                                       .reads_dram = true,
                                       .reads_hbm = false,
                                       .needs_owner_progress = true,
                                       .bounds_checked_by_owner = true,
                                       .cancellable = true};
  return kTraits;
}

Result<PeerLink> Tcp::connect(const SegmentRow& row, TimePoint deadline) {
  return connect_over_tcp(links_, row, Engine::kTcp, deadline);
}

Result<PeerLink> connect_over_tcp(SocketLinks& links, const SegmentRow& row, Engine engine,
                                  TimePoint deadline) {
  const std::string text = endpoint_in(row, engine);
  if (text.empty())
    return Refusal{"key", str("memory: row of process ", row.process, " has no endpoint")};
  const Result<Endpoint> endpoint = parse_endpoint(text);
  if (!endpoint) return endpoint.refusal();
  Result<Descriptor> socket = start_connecting(endpoint.value());
  if (!socket) return socket.refusal();
  return links.connect(std::move(socket).value(), row, text, deadline);
}

TransportKey endpoint_key(Engine engine, const Endpoint& endpoint) {
  const std::string text = text_of(endpoint);
  const auto bytes = std::as_bytes(std::span(text));
  return {.engine = engine, .bytes = {bytes.begin(), bytes.end()}};
}

std::string endpoint_in(const SegmentRow& row, Engine engine) {
  const TransportKey* key = row.find_key(engine);
  if (key == nullptr) return {};
  return {reinterpret_cast<const char*>(key->bytes.data()), key->bytes.size()};
}

}  // namespace tributary::memory
