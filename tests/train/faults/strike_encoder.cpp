// Strikes an encoder at a point of its work, for LD_PRELOAD: STRIKE_AT is `publishing`, `serving`
// (while a GET is answered) or `encoding`, and a number: how often it passes the point before.
// STRIKE_FILE holds two numbers of eight bytes for all processes of a job: whether one was struck,
// which happens once, and how many objects encoders have published. Other processes go on.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace {

constexpr std::uint8_t kPublish = 6, kGetReply = 10;   // FrameType
constexpr std::size_t kHeader = 32, kTypeByte = 5;     // of a frame
constexpr std::chrono::milliseconds kIntoEncoding{2};  // after the picture is decoded

struct Shared {
  std::atomic<std::uint64_t> struck, published;
};

bool is_encoder() {
  std::array<char, 4096> words{};
  const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  const ssize_t count = read(file, words.data(), words.size() - 1);
  close(file);
  if (count <= 0) return false;
  return std::strcmp(words.data() + std::strlen(words.data()) + 1, "encoder") == 0;
}

Shared* open_shared() {
  const char* const path = std::getenv("STRIKE_FILE");
  if (path == nullptr || !is_encoder()) return nullptr;
  const int file = open(path, O_RDWR | O_CLOEXEC);
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<Shared*>(memory);
}

Shared* shared() {
  static Shared* const memory = open_shared();
  return memory;
}

/// Whether this is the passage at which the process is struck.
bool is_struck(const std::string& point) {
  static std::atomic<int> passages{0};
  const char* const given = std::getenv("STRIKE_AT");
  if (given == nullptr || shared() == nullptr) return false;
  const std::string at = given;
  const std::size_t blank = at.find(' ');
  if (at.substr(0, blank) != point) return false;
  if (++passages <= std::atoi(at.c_str() + blank)) return false;
  std::uint64_t nobody = 0;
  return shared()->struck.compare_exchange_strong(nobody, 1);
}

void die() { kill(getpid(), SIGKILL); }

bool is_frame(const iovec& piece, std::uint8_t type) {
  const auto* const bytes = static_cast<const std::uint8_t*>(piece.iov_base);
  std::uint32_t magic = 0;
  if (piece.iov_len < kHeader) return false;
  std::memcpy(&magic, bytes, sizeof magic);
  return magic == 0x42495254 && bytes[kTypeByte] == type;  // "TRIB"
}

void count_published(const iovec& piece) {
  static std::atomic<std::uint64_t> newest{0};  // sequences rise; what is sent again does not count
  std::uint64_t sequence = 0;
  std::memcpy(&sequence, static_cast<const std::uint8_t*>(piece.iov_base) + kHeader,
              sizeof sequence);
  if (sequence > newest.exchange(std::max(sequence, newest.load()))) ++shared()->published;
}

template <class Call>
Call* next(const char* name) {
  return reinterpret_cast<Call*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  static auto* const call = next<ssize_t(int, const msghdr*, int)>("sendmsg");
  if (shared() == nullptr) return call(socket, message, flags);
  for (std::size_t i = 0; i < message->msg_iovlen; ++i) {
    const iovec& piece = message->msg_iov[i];
    const bool publishes = is_frame(piece, kPublish);
    if (publishes) count_published(piece);
    const bool strikes = (publishes && is_struck("publishing")) ||
                         (is_frame(piece, kGetReply) && is_struck("serving"));
    if (!strikes) continue;
    // Half of the message leaves.
    msghdr half = *message;
    half.msg_iovlen = std::max<std::size_t>(1, (message->msg_iovlen + 1) / 2);
    iovec& last = message->msg_iov[half.msg_iovlen - 1];
    last.iov_len = (last.iov_len + 1) / 2;
    (void)call(socket, &half, flags);
    die();
  }
  return call(socket, message, flags);
}

/// The decoder of a picture begins.
extern "C" void png_read_info(void* png, void* info) {
  static auto* const call = next<void(void*, void*)>("png_read_info");
  if (is_struck("encoding"))
    std::thread([] {
      std::this_thread::sleep_for(kIntoEncoding);
      die();
    }).detach();
  call(png, info);
}
