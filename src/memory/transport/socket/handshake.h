#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/result.h"
#include "memory/transport/socket/job_key.h"
#include "memory/wire/structures.h"

namespace tributary::memory {

/// Who a process is in the pool of its job.
struct Membership {
  std::array<std::uint8_t, 16> job{};  // names the job; no secret
  std::uint32_t rank = 0, world = 0;
  Role role{};
  std::uint16_t process = 0;
  std::uint32_t incarnation = 0;
  bool resumes = false;  // it was let in before, and that connection broke
};

// Both ends prove that they hold the job key, and neither sends it:
//
//   client to server  HELLO      who it is, and a fresh nonce
//   server to client  CHALLENGE  the same of the server, HMAC("server" | HELLO | CHALLENGE)
//   client to server  CONFIRM    HMAC("client" | HELLO | CHALLENGE)
//
// The labels stop a proof from being reflected, the nonces from being replayed. Neither class has
// input or output of its own. A refusal has one of the codes `magic`, `version`, `job`, `world`,
// `rank`, `role`, `key`.

class ClientHandshake {
 public:
  ClientHandshake(const Membership& self, const JobKey& key, const Nonce& nonce);

  [[nodiscard]] const Hello& hello() const { return hello_; }
  /// Checks the server's proof and makes the own one.
  [[nodiscard]] Result<Confirm> answer(const Challenge& challenge) const;

 private:
  JobKey key_;
  Hello hello_;
};

class ServerHandshake {
 public:
  ServerHandshake(const Membership& self, const JobKey& key, const Nonce& nonce);

  /// Takes what a client says of itself, which proves nothing yet.
  [[nodiscard]] Result<Challenge> challenge(const Hello& client);
  /// Checks the client's proof; empty when it holds the key.
  [[nodiscard]] std::optional<Refusal> check(const Confirm& confirm) const;
  [[nodiscard]] const Hello& client() const { return client_; }

 private:
  JobKey key_;
  Hello own_;
  Hello client_;
};

}  // namespace tributary::memory
