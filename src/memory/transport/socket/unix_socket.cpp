#include "memory/transport/socket/unix_socket.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/error.h"

namespace tributary::memory {
namespace {

constexpr std::size_t kMaxDescriptors = 4;  // taken from a peer at once, to close what is too much

/// Where a socket lies. A path that is too long for the system goes through the descriptor of its
/// directory.
struct SocketAddress {
  sockaddr_un name = {};
  Descriptor directory = {};

  [[nodiscard]] const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&name); }
};

std::optional<SocketAddress> address_of(const std::string& path) {
  SocketAddress address;
  address.name.sun_family = AF_UNIX;
  std::string text = path;
  if (const std::size_t slash = path.rfind('/');
      path.size() >= sizeof address.name.sun_path && slash != std::string::npos) {
    address.directory =
        Descriptor(open(path.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!address.directory) return std::nullopt;
    text = str("/proc/self/fd/", address.directory.get(), path.substr(slash));
  }
  if (text.size() >= sizeof address.name.sun_path) return std::nullopt;
  std::memcpy(address.name.sun_path, text.data(), text.size());
  return address;
}

Descriptor make_socket() {
  return Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// Whether a socket is what a dead process left. A full queue means that somebody lives.
bool is_abandoned(const std::string& path) {
  const std::optional<SocketAddress> address = address_of(path);
  const Descriptor probe = make_socket();
  return address && probe && connect(probe.get(), address->generic(), sizeof address->name) != 0 &&
         errno == ECONNREFUSED;
}

}  // namespace

Descriptor lock_private_directory(const std::string& directory) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    TRIB_RAISE(Fault::kResource, .what = "memory: directory of the pool's sockets cannot be made",
               .where = directory, .found = std::strerror(errno));
  Descriptor opened(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  TRIB_REQUIRE(opened && fstat(opened.get(), &status) == 0,
               .what = "memory: directory of the pool's sockets cannot be opened",
               .where = directory, .found = std::strerror(errno),
               .expected = "a directory, and no link to one");
  TRIB_REQUIRE(status.st_uid == geteuid() && (status.st_mode & 077) == 0,
               .what = "memory: directory of the pool's sockets is not private", .where = directory,
               .found = str("user ", status.st_uid, ", mode 0", std::oct, status.st_mode & 0777),
               .expected = str("user ", geteuid(), ", mode 0700"),
               .fix = "name another directory, or remove this one");
  TRIB_CHECK(flock(opened.get(), LOCK_EX) == 0, .what = "memory: directory cannot be locked",
             .where = directory, .found = std::strerror(errno));
  return opened;
}

Descriptor listen_in_private_directory(const std::string& directory, const std::string& name) {
  const std::string path = str(directory, "/", name);
  // Locked, since a socket that is bound and does not listen yet looks abandoned to others.
  const Descriptor lock = lock_private_directory(directory);
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    if (entry.is_socket() && is_abandoned(entry.path())) unlink(entry.path().c_str());
  const std::optional<SocketAddress> address = address_of(path);
  TRIB_REQUIRE(address, .what = "memory: name of a socket is too long", .where = path,
               .found = str(name.size(), " bytes"), .expected = "fewer than 80");
  Descriptor listening = make_socket();
  if (!listening || bind(listening.get(), address->generic(), sizeof address->name) != 0 ||
      listen(listening.get(), SOMAXCONN) != 0)
    TRIB_RAISE(Fault::kResource, .what = "memory: pool cannot listen at its socket", .where = path,
               .found = std::strerror(errno));
  return listening;
}

Result<Descriptor> connect_to_path(const std::string& path) {
  const std::optional<SocketAddress> address = address_of(path);
  Descriptor connected = make_socket();
  if (address && connected &&
      connect(connected.get(), address->generic(), sizeof address->name) == 0)
    return connected;
  return Refusal{"connect", str("memory: nobody listens at ", path, ": ", std::strerror(errno))};
}

bool is_unix_socket(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  return getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
         address.ss_family == AF_UNIX;
}

Result<uid_t> user_at_other_end(int socket) {
  ucred other = {};
  socklen_t size = sizeof other;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0) return other.uid;
  return Refusal{"peer", str("memory: user at the other end is not known: ", std::strerror(errno))};
}

ssize_t send_with_descriptor(int socket, std::span<const std::byte> bytes, int descriptor) {
  iovec piece = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  return sendmsg(socket, &message, MSG_NOSIGNAL);
}

Received receive_with_descriptor(int socket, std::span<std::byte> into) {
  iovec piece = {into.data(), into.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control{};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  Received received{.count = recvmsg(socket, &message, MSG_CMSG_CLOEXEC), .descriptor = {}};
  if (received.count < 0) return received;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int raw = -1;
      std::memcpy(&raw, CMSG_DATA(head) + i * sizeof raw, sizeof raw);
      Descriptor taken(raw);
      if (!received.descriptor) received.descriptor = std::move(taken);
    }
  }
  return received;
}

}  // namespace tributary::memory
