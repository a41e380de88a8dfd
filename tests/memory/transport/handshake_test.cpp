#include "memory/transport/socket/handshake.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/error.h"
#include "tests/memory/transport/object_owner.h"

namespace tributary::memory {
namespace {

using testing::HasSubstr;

std::string hex(const Mac& mac) {
  std::string text;
  for (const std::byte byte : mac) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", std::to_integer<unsigned>(byte));
    text += two;
  }
  return text;
}

/// HMAC fills keys with zeros up to its block, so that shorter keys of a standard can be taken.
JobKey filled_up(std::string_view secret) {
  std::array<std::byte, JobKey::kBytes> bytes{};
  std::memcpy(bytes.data(), secret.data(), secret.size());
  return JobKey(bytes);
}

// source: RFC 4231, sections 4.2 and 4.3
TEST(JobKey, SignsAsTheStandardSays) {
  EXPECT_EQ(hex(filled_up(std::string(20, '\x0b')).sign("Hi There", {})),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  const std::string_view text = "ya want for nothing?";
  EXPECT_EQ(hex(filled_up("Jefe").sign("what do ", {std::as_bytes(std::span(text))})),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

class KeyFile : public testing::Test {
 protected:
  void write(std::size_t bytes, mode_t mode) {
    std::ofstream(path) << std::string(bytes, 'k');
    chmod(path.c_str(), mode);
  }
  ~KeyFile() override { std::filesystem::remove(path); }
  std::string path = std::filesystem::temp_directory_path() / str("tributary_key_", getpid());
};

TEST_F(KeyFile, IsReadWhenItIsPrivate) {
  write(32, 0600);
  const std::string secret(32, 'k');
  EXPECT_EQ(read_job_key(path).sign("a", {}), filled_up(secret).sign("a", {}));
}

TEST_F(KeyFile, IsRefusedWhenOthersMayReadIt) {
  write(32, 0640);
  EXPECT_THAT([&] { (void)read_job_key(path); },
              testing::ThrowsMessage<Error>(
                  HasSubstr("job key is open to others; where: " + path + "; found: mode 0640")));
}

TEST_F(KeyFile, IsRefusedWithAnotherLength) {
  write(31, 0600);
  EXPECT_THAT([&] { (void)read_job_key(path); },
              testing::ThrowsMessage<Error>(HasSubstr("found: 31 bytes; expected: 32 bytes")));
  write(33, 0600);
  EXPECT_THAT([&] { (void)read_job_key(path); },
              testing::ThrowsMessage<Error>(HasSubstr("found: more than 32 bytes")));
}

TEST_F(KeyFile, IsRefusedWhenItIsALinkOrMissing) {
  EXPECT_THAT([&] { (void)read_job_key(path); },
              testing::ThrowsMessage<Error>(HasSubstr("No such file")));
  std::filesystem::create_symlink("/dev/zero", path);
  EXPECT_THAT([&] { (void)read_job_key(path); },
              testing::ThrowsMessage<Error>(HasSubstr("job key cannot be opened")));
}

constexpr Nonce kNonce{std::byte{1}};
constexpr Nonce kOtherNonce{std::byte{2}};

/// Both ends of a handshake in one process.
struct Ends {
  Membership client_member = make_member(1, Role::kConsumer, 1);
  Membership server_member = make_member(0, Role::kProducer, 3);
  ClientHandshake client{client_member, make_key(), kNonce};
  ServerHandshake server{server_member, make_key(), kOtherNonce};
};

TEST(Handshake, ConvincesBothEnds) {
  Ends ends;
  const auto challenge = ends.server.challenge(ends.client.hello());
  const auto confirm = ends.client.answer(challenge.value());
  EXPECT_FALSE(ends.server.check(confirm.value()).has_value());
  EXPECT_EQ(ends.server.client().rank, 1);
}

TEST(Handshake, RefusesAnotherKeyAtBothEnds) {  // I20
  Ends ends;
  const ClientHandshake client(ends.client_member, make_key(2), kNonce);
  const auto challenge = ends.server.challenge(client.hello());
  EXPECT_EQ(client.answer(challenge.value()).refusal().code, "key");
  Confirm guessed;
  guessed.mac[0] = 1;
  EXPECT_EQ(ends.server.check(guessed).value().code, "key");
}

TEST(Handshake, RefusesAProofThatIsReplayed) {  // I20
  Ends ends;
  const Confirm recorded =
      ends.client.answer(ends.server.challenge(ends.client.hello()).value()).value();
  ServerHandshake later(ends.server_member, make_key(), draw_nonce());
  ASSERT_TRUE(later.challenge(ends.client.hello()).has_value());
  EXPECT_EQ(later.check(recorded).value().code, "key");
}

TEST(Handshake, RefusesItsOwnProofReflected) {
  Ends ends;
  const auto challenge = ends.server.challenge(ends.client.hello());
  Confirm reflected;
  std::memcpy(reflected.mac, challenge.value().mac, sizeof reflected.mac);
  EXPECT_EQ(ends.server.check(reflected).value().code, "key");
}

TEST(Handshake, RefusesEachFieldThatIsChangedOnTheWay) {
  Ends ends;
  const Challenge good = ends.server.challenge(ends.client.hello()).value();
  for (std::size_t at = 0; at < sizeof(Challenge); ++at) {
    Challenge changed = good;
    reinterpret_cast<unsigned char*>(&changed)[at] ^= 1;
    EXPECT_FALSE(ends.client.answer(changed).has_value()) << "byte " << at;
  }
}

TEST(Handshake, NamesWhatIsWrongWithAStranger) {  // I20
  Ends ends;
  const auto code_of = [&](auto change) {
    Hello hello = ends.client.hello();
    change(hello);
    const auto challenge = ends.server.challenge(hello);
    return challenge ? std::string() : challenge.refusal().code;
  };
  EXPECT_EQ(code_of([](Hello& hello) { hello.magic = 1; }), "magic");
  EXPECT_EQ(code_of([](Hello& hello) { hello.resumes = 2; }), "magic");
  EXPECT_EQ(code_of([](Hello& hello) { hello.version = kFrameVersion + 1; }), "version");
  EXPECT_EQ(code_of([](Hello& hello) { hello.job[0] ^= 1; }), "job");
  EXPECT_EQ(code_of([](Hello& hello) { hello.world = 5; }), "world");
  EXPECT_EQ(code_of([](Hello& hello) { hello.rank = 4; }), "rank");
  EXPECT_EQ(code_of([](Hello& hello) { hello.role = 4; }), "role");
  EXPECT_EQ(code_of([](Hello&) {}), "");
}

}  // namespace
}  // namespace tributary::memory
