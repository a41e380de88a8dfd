#include "memory/transport/socket/handshake.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "memory/wire/frame.h"

namespace tributary::memory {
namespace {

Hello make_hello(const Membership& self, const Nonce& nonce) {
  Hello hello;
  hello.magic = kFrameMagic;
  hello.version = kFrameVersion;
  hello.role = static_cast<std::uint16_t>(self.role);
  std::ranges::copy(self.job, hello.job);
  hello.rank = self.rank;
  hello.world = self.world;
  hello.process = self.process;
  hello.resumes = self.resumes ? 1 : 0;
  hello.incarnation = self.incarnation;
  std::memcpy(hello.nonce, nonce.data(), nonce.size());
  return hello;
}

std::string job_text(const std::uint8_t (&job)[16]) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < 4; ++i) (text += kHex[job[i] >> 4]) += kHex[job[i] & 15];
  return text + "..";
}

/// Says why `other` cannot be a peer of `own`; empty when it can.
std::optional<Refusal> find_fault(const Hello& other, const Hello& own) {
  if (other.magic != own.magic || other.resumes > 1 || other.zero != 0)
    return Refusal{"magic", "memory: peer does not speak the pool's protocol"};
  if (other.version != own.version)
    return Refusal{"version", str("memory: peer speaks another version: version = ", other.version,
                                  ", expected ", own.version)};
  if (!std::ranges::equal(other.job, own.job))
    return Refusal{"job", str("memory: peer is not of this job: job = ", job_text(other.job),
                              ", expected ", job_text(own.job))};
  if (other.world != own.world)
    return Refusal{"world", str("memory: peer has another number of ranks: world = ", other.world,
                                ", expected ", own.world)};
  if (other.rank >= own.world)
    return Refusal{"rank", str("memory: peer is no rank of this job: rank = ", other.rank,
                               ", below ", own.world, " expected")};
  if (other.role < 1 || other.role > 3)
    return Refusal{"role", str("memory: peer has no role of the pool: role = ", other.role)};
  return std::nullopt;
}

Mac sign(const JobKey& key, std::string_view label, const Hello& client, const Hello& server) {
  return key.sign(label,
                  {std::as_bytes(std::span(&client, 1)), std::as_bytes(std::span(&server, 1))});
}

template <std::size_t kSize>
bool is_proof(const Mac& expected, const std::uint8_t (&given)[kSize]) {
  Mac mac{};
  static_assert(sizeof given == sizeof mac);
  std::memcpy(mac.data(), given, mac.size());
  return are_equal(expected, mac);
}

Refusal wrong_key(const Hello& peer) {
  return {"key", str("memory: peer does not hold the job key: it says rank ", peer.rank)};
}

}  // namespace

ClientHandshake::ClientHandshake(const Membership& self, const JobKey& key, const Nonce& nonce)
    : key_(key), hello_(make_hello(self, nonce)) {}

Result<Confirm> ClientHandshake::answer(const Challenge& challenge) const {
  if (auto fault = find_fault(challenge.server, hello_)) return *std::move(fault);
  if (!is_proof(sign(key_, "server", hello_, challenge.server), challenge.mac))
    return wrong_key(challenge.server);
  const Mac mac = sign(key_, "client", hello_, challenge.server);
  Confirm confirm;
  std::memcpy(confirm.mac, mac.data(), mac.size());
  return confirm;
}

ServerHandshake::ServerHandshake(const Membership& self, const JobKey& key, const Nonce& nonce)
    : key_(key), own_(make_hello(self, nonce)) {}

Result<Challenge> ServerHandshake::challenge(const Hello& client) {
  if (auto fault = find_fault(client, own_)) return *std::move(fault);
  client_ = client;
  Challenge challenge;
  challenge.server = own_;
  const Mac mac = sign(key_, "server", client_, own_);
  std::memcpy(challenge.mac, mac.data(), mac.size());
  return challenge;
}

std::optional<Refusal> ServerHandshake::check(const Confirm& confirm) const {
  if (is_proof(sign(key_, "client", client_, own_), confirm.mac)) return std::nullopt;
  return wrong_key(client_);
}

}  // namespace tributary::memory
